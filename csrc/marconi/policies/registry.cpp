// Policies by name: a new one is a file and a line here.
#include <stdexcept>

#include "marconi/policies/marconi.h"
#include "marconi/policies/policy.h"
#include "marconi/policies/sglang.h"
#include "marconi/policies/sglang_native.h"
#include "marconi/policies/vllm.h"

namespace marconi {

std::unique_ptr<Policy> make_policy(const PolicyOptions& options, const CacheTree& cache) {
    if (options.name == "vllm") return std::make_unique<VllmPolicy>(cache);
    if (options.name == "sglang") return std::make_unique<SglangPolicy>(cache, options);
    if (options.name == "sglang-native") return std::make_unique<SglangNativePolicy>(cache);
    if (options.name == "marconi") return std::make_unique<MarconiPolicy>(cache, options);
    throw std::invalid_argument(
        "policy must be none, vllm, sglang, sglang-native, marconi or belady, got \"" + options.name + "\"");
}

std::uint32_t policy_grid_tokens(const std::string& name) {
    if (name == "vllm") return VllmPolicy::kBlockTokens;
    if (name == "sglang-native") return SglangNativePolicy::kGridTokens;
    return 1;
}

}  // namespace marconi
