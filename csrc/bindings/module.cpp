#include "bindings/bindings.h"

PYBIND11_MODULE(_core, m) {
    m.doc() = "Native core of sglang-marconi.";
    bind_utility_index(m);
    bind_utility_order(m);
    bind_tuning(m);
    bind_prefix_hash(m);
    bind_simulator(m);
    bind_pool_cache(m);
}
