#include "marconi/trace/prefix_hash.h"

#include "bindings/arrays.h"
#include "bindings/bindings.h"

namespace py = pybind11;
using marconi::PrefixHasher;

void bind_prefix_hash(py::module_& m) {
    py::class_<PrefixHasher>(m, "PrefixHasher", "Keyed hashes of prefixes (SipHash-2-4, chained).")
        .def(py::init([](std::uint64_t key0, std::uint64_t key1) { return PrefixHasher({key0, key1}); }),
             py::arg("key0"), py::arg("key1"))
        .def(
            "hash",
            [](const PrefixHasher& hasher, const py::array& tokens, std::uint64_t seed) {
                const auto span = bindings::tokens_of(tokens, "tokens");
                py::array_t<std::uint32_t> hashes(static_cast<py::ssize_t>(span.size));
                const std::uint64_t link = hasher.hash(span, seed, hashes.mutable_data());
                return py::make_tuple(hashes, link);
            },
            py::arg("tokens"), py::arg("seed"));
}
