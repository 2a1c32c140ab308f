// A simulated cache step by step, with what it reported to the order of victims: to compare with a live
// cache.
#include "marconi/pools/pool_cache.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "marconi/replay/replay.h"

namespace py = pybind11;
using marconi::EvictionOrder;
using marconi::PoolCache;
using marconi::ReplayOptions;
using marconi::Trace;
using marconi::TreeNodeId;

namespace {

// An event's name and what it was told or answered.
using Event = std::pair<std::string, std::vector<std::int64_t>>;

class LoggedOrder final : public EvictionOrder {
  public:
    explicit LoggedOrder(std::unique_ptr<EvictionOrder> order) : order_(std::move(order)) {}

    void clear() override { order_->clear(); }
    void node_added(TreeNodeId node, TreeNodeId parent, std::uint32_t tokens) override {
        log("node_added", {node, parent, tokens});
        order_->node_added(node, parent, tokens);
    }
    void node_split(TreeNodeId prefix, TreeNodeId suffix, std::uint32_t suffix_tokens) override {
        log("node_split", {prefix, suffix, suffix_tokens});
        order_->node_split(prefix, suffix, suffix_tokens);
    }
    void node_removed(TreeNodeId node) override {
        log("node_removed", {node});
        order_->node_removed(node);
    }
    void state_admitted(TreeNodeId node) override {
        log("state_admitted", {node});
        order_->state_admitted(node);
    }
    void state_evicted(TreeNodeId node) override {
        log("state_evicted", {node});
        order_->state_evicted(node);
    }
    void set_state_locked(TreeNodeId node, bool is_locked) override {
        order_->set_state_locked(node, is_locked);
    }
    void leaf_added(TreeNodeId node) override { order_->leaf_added(node); }
    void leaf_removed(TreeNodeId node) override { order_->leaf_removed(node); }
    void touch_hit(TreeNodeId node) override {
        log("touch", {node});
        order_->touch_hit(node);
    }
    void touch_admitted(TreeNodeId node) override {
        log("touch", {node});
        order_->touch_admitted(node);
    }
    void touch_walked(TreeNodeId node) override { order_->touch_walked(node); }
    std::optional<TreeNodeId> state_victim() override {
        return logged("state_victim", order_->state_victim());
    }
    std::optional<TreeNodeId> leaf_victim() override { return logged("leaf_victim", order_->leaf_victim()); }

    std::vector<Event> take_events() { return std::exchange(events_, {}); }

  private:
    void log(const char* name, std::vector<std::int64_t> ids) { events_.emplace_back(name, std::move(ids)); }
    std::optional<TreeNodeId> logged(const char* name, std::optional<TreeNodeId> victim) {
        log(name, victim ? std::vector<std::int64_t>{*victim} : std::vector<std::int64_t>{});
        return victim;
    }

    std::unique_ptr<EvictionOrder> order_;
    std::vector<Event> events_;
};

// Keeps alive what the cache refers to.
class SteppedPoolCache {
  public:
    SteppedPoolCache(std::shared_ptr<Trace> trace, const ReplayOptions& options)
        : trace_(std::move(trace)),
          cache_(*trace_, options.pools, pool_admission(options.policy), options.cost.total,
                 std::make_unique<LoggedOrder>(make_eviction_order(options.policy, options.cost.total))) {}

    PoolCache& cache() { return cache_; }
    LoggedOrder& order() { return static_cast<LoggedOrder&>(cache_.order()); }

  private:
    std::shared_ptr<Trace> trace_;
    PoolCache cache_;
};

}  // namespace

void bind_pool_cache(py::module_& m) {
    using Stepped = SteppedPoolCache;
    const auto request = py::arg("request");
    py::class_<Stepped>(m, "PoolCache")
        .def(py::init<std::shared_ptr<Trace>, const ReplayOptions&>(), py::arg("trace"), py::arg("options"))
        .def(
            "arrive", [](Stepped& s, std::size_t i) { s.cache().arrive(i); }, request)
        .def(
            "start", [](Stepped& s, std::size_t i) { s.cache().start(i); }, request)
        .def(
            "finish", [](Stepped& s, std::size_t i) { s.cache().finish(i); }, request)
        .def(
            "abort", [](Stepped& s, std::size_t i) { s.cache().abort(i); }, request)
        .def(
            "has_room_for", [](Stepped& s, std::size_t i) { return s.cache().has_room_for(i); }, request)
        .def(
            "hit_tokens", [](Stepped& s, std::size_t i) { return s.cache().outcome(i).hit_tokens; }, request)
        .def_property_readonly("free_kv_tokens", [](Stepped& s) { return s.cache().free_kv_tokens(); })
        .def_property_readonly("free_states", [](Stepped& s) { return s.cache().free_states(); })
        .def("nodes", [](Stepped& s) { return s.cache().tree().shape(); })
        .def("take_events", [](Stepped& s) { return s.order().take_events(); });
}
