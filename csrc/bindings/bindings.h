// One function per component: adds its classes to the extension module.
#pragma once

#include <pybind11/pybind11.h>

void bind_simulator(pybind11::module_& m);
void bind_utility_index(pybind11::module_& m);
