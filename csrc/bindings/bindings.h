// One function per component: adds its classes to the extension module. And what several of them parse.
#pragma once

#include <pybind11/pybind11.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#include "marconi/prefix_cost.h"
#include "marconi/utility_index.h"

void bind_pool_cache(pybind11::module_& m);
void bind_prefix_hash(pybind11::module_& m);
void bind_simulator(pybind11::module_& m);
void bind_tuning(pybind11::module_& m);
void bind_utility_index(pybind11::module_& m);
void bind_utility_order(pybind11::module_& m);

namespace bindings {

template <typename Value>
Value parse(const char* what, const std::string& name,
            std::initializer_list<std::pair<const char*, Value>> names) {
    std::string known;
    for (const auto& [candidate, value] : names) {
        if (name == candidate) return value;
        known += known.empty() ? candidate : std::string(" or ") + candidate;
    }
    throw std::invalid_argument(std::string(what) + " must be " + known + ", got \"" + name + "\"");
}

inline marconi::RecencyForm parse_recency(const std::string& name) {
    using marconi::RecencyForm;
    return parse<RecencyForm>("recency", name,
                              {{"linear", RecencyForm::kLinear}, {"inverse_age", RecencyForm::kInverseAge}});
}

inline marconi::BytesForm parse_bytes(const std::string& name) {
    using marconi::BytesForm;
    return parse<BytesForm>("bytes", name, {{"own", BytesForm::kOwn}, {"path", BytesForm::kPath}});
}

}  // namespace bindings
