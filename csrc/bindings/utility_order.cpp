#include "marconi/pools/utility_order.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/bindings.h"

namespace py = pybind11;
using marconi::PrefixCost;
using marconi::TreeNodeId;
using marconi::UtilityForm;
using marconi::UtilityIndex;
using marconi::UtilityOrder;

namespace {

const UtilityIndex* index_named(const UtilityOrder& order, const std::string& name) {
    return bindings::parse<const UtilityIndex*>("index", name,
                                                {{"states", &order.state_index()},
                                                 {"shared_states", &order.shared_state_index()},
                                                 {"leaves", &order.leaf_index()}});
}

}  // namespace

void bind_utility_order(py::module_& m) {
    py::class_<UtilityOrder>(m, "UtilityOrder")
        .def(py::init([](double linear_flops_per_token, double quadratic_flops_per_token_squared,
                         std::int64_t kv_bytes_per_token, std::int64_t state_bytes, double alpha,
                         const std::string& recency, const std::string& bytes) {
                 const PrefixCost cost{linear_flops_per_token, quadratic_flops_per_token_squared,
                                       kv_bytes_per_token, state_bytes};
                 const UtilityForm form{alpha, bindings::parse_recency(recency),
                                        bindings::parse_bytes(bytes)};
                 return std::make_unique<UtilityOrder>(cost, form);
             }),
             py::kw_only(), py::arg("linear_flops_per_token"), py::arg("quadratic_flops_per_token_squared"),
             py::arg("kv_bytes_per_token"), py::arg("state_bytes"), py::arg("alpha") = 0.0,
             py::arg("recency") = "linear", py::arg("bytes") = "own")
        .def(
            "set_form",
            [](UtilityOrder& order, double alpha, const std::string& recency, const std::string& bytes) {
                order.set_form({alpha, bindings::parse_recency(recency), bindings::parse_bytes(bytes)});
            },
            py::arg("alpha"), py::arg("recency"), py::arg("bytes"))
        .def_property_readonly("clock", &UtilityOrder::clock)
        .def("clear", &UtilityOrder::clear)
        .def("node_added", &UtilityOrder::node_added, py::arg("node"), py::arg("parent"), py::arg("tokens"))
        .def("node_split", &UtilityOrder::node_split, py::arg("prefix"), py::arg("suffix"),
             py::arg("suffix_tokens"))
        .def("node_removed", &UtilityOrder::node_removed, py::arg("node"))
        .def("state_admitted", &UtilityOrder::state_admitted, py::arg("node"))
        .def("state_evicted", &UtilityOrder::state_evicted, py::arg("node"))
        .def("set_state_locked", &UtilityOrder::set_state_locked, py::arg("node"), py::arg("is_locked"))
        .def("leaf_added", &UtilityOrder::leaf_added, py::arg("node"))
        .def("leaf_removed", &UtilityOrder::leaf_removed, py::arg("node"))
        .def("touch", &UtilityOrder::touch, py::arg("node"))
        .def("state_victim", &UtilityOrder::state_victim)
        .def("leaf_victim", &UtilityOrder::leaf_victim)
        .def("__len__", &UtilityOrder::size)
        .def("__contains__", &UtilityOrder::contains, py::arg("node"))
        .def_property_readonly("states", &UtilityOrder::states)
        .def("last_access", &UtilityOrder::last_access, py::arg("node"))
        .def("is_state_locked", &UtilityOrder::is_state_locked, py::arg("node"))
        .def("efficiency", py::overload_cast<TreeNodeId>(&UtilityOrder::efficiency, py::const_),
             py::arg("node"))
        .def(
            "index",
            [](const UtilityOrder& order, const std::string& name) { return index_named(order, name); },
            py::arg("name"), py::return_value_policy::reference_internal);
}
