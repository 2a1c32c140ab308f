#include "marconi/utility_index.h"

#include <pybind11/stl.h>

#include <string>

#include "bindings/bindings.h"

namespace py = pybind11;
using marconi::RecencyForm;
using marconi::UtilityIndex;

namespace {

using bindings::parse_recency;

const char* name_of(RecencyForm form) {
    return form == RecencyForm::kLinear ? "linear" : "inverse_age";
}

}  // namespace

void bind_utility_index(py::module_& m) {
    // NOLINTNEXTLINE(performance-unnecessary-value-param): pybind11 fixes the signature.
    py::register_exception_translator([](std::exception_ptr error) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (const marconi::UnknownNode& unknown) {
            py::set_error(PyExc_KeyError, unknown.what());
        }
    });

    py::class_<UtilityIndex>(m, "UtilityIndex")
        .def(py::init([](double alpha, const std::string& recency) {
                 return UtilityIndex(alpha, parse_recency(recency));
             }),
             py::arg("alpha") = 0.0, py::arg("recency") = "linear")
        .def_property_readonly("alpha", &UtilityIndex::alpha)
        .def_property_readonly("recency",
                               [](const UtilityIndex& index) { return name_of(index.recency_form()); })
        .def("set_alpha", &UtilityIndex::set_alpha, py::arg("alpha"))
        .def(
            "set_recency_form",
            [](UtilityIndex& index, const std::string& recency) {
                index.set_recency_form(parse_recency(recency));
            },
            py::arg("recency"))
        .def("insert", &UtilityIndex::insert, py::arg("id"), py::arg("last_access"), py::arg("efficiency"))
        .def("remove", &UtilityIndex::remove, py::arg("id"))
        .def("clear", &UtilityIndex::clear)
        .def("touch", &UtilityIndex::touch, py::arg("id"), py::arg("last_access"))
        .def("set_efficiency", &UtilityIndex::set_efficiency, py::arg("id"), py::arg("efficiency"))
        .def("update", &UtilityIndex::update, py::arg("id"), py::arg("last_access"), py::arg("efficiency"))
        .def("lock", &UtilityIndex::lock, py::arg("id"))
        .def("unlock", &UtilityIndex::unlock, py::arg("id"))
        .def("is_locked", &UtilityIndex::is_locked, py::arg("id"))
        .def("contains", &UtilityIndex::contains, py::arg("id"))
        .def("__contains__", &UtilityIndex::contains, py::arg("id"))
        .def("last_access", &UtilityIndex::last_access, py::arg("id"))
        .def("efficiency", &UtilityIndex::efficiency, py::arg("id"))
        .def("size", &UtilityIndex::size)
        .def("__len__", &UtilityIndex::size)
        .def("candidates", &UtilityIndex::candidates)
        .def("victim", &UtilityIndex::victim, py::arg("now") = 0)
        .def("pop_victim", &UtilityIndex::pop_victim, py::arg("now") = 0)
        .def("scores", &UtilityIndex::scores, py::arg("now") = 0);
}
