// Arrays of tokens and block hashes from Python, without a copy.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <string>

#include "marconi/trace/radix_tree.h"

namespace bindings {

// Throws TypeError, naming the argument, for another type, shape or layout.
template <typename Unit>
marconi::UnitSpan<Unit> span_of(const pybind11::array& array, const char* name) {
    const bool fits = array.ndim() == 1 && array.dtype().is(pybind11::dtype::of<Unit>()) &&
                      (array.flags() & pybind11::array::c_style) != 0;
    if (!fits) {
        throw pybind11::type_error(std::string(name) + " must be a contiguous one-dimensional array of " +
                                   (sizeof(Unit) == 4 ? "uint32" : "uint64"));
    }
    return {static_cast<const Unit*>(array.data()), static_cast<std::size_t>(array.size())};
}

inline marconi::UnitSpan<std::uint32_t> tokens_of(const pybind11::array& array, const char* name) {
    return span_of<std::uint32_t>(array, name);
}

}  // namespace bindings
