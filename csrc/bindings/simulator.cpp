#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "marconi/replay/search.h"
#include "marconi/trace/trace_builder.h"

namespace py = pybind11;
using bindings::span_of;
using bindings::tokens_of;
using marconi::BlockTraceBuilder;
using marconi::Budget;
using marconi::LayerwiseCost;
using marconi::Outcome;
using marconi::Preset;
using marconi::ReplayOptions;
using marconi::ReplayResult;
using marconi::Request;
using marconi::Search;
using marconi::TokenTraceBuilder;
using marconi::Trace;

namespace {

ReplayOptions make_options(const std::string& policy, std::int64_t capacity_bytes, const LayerwiseCost& cost,
                           double alpha, bool tunes_alpha, const std::string& preset,
                           const std::string& recency, const std::string& bytes,
                           std::uint32_t min_branch_gain_tokens, bool admits_prompt_end,
                           const std::string& budget, std::int64_t kv_tokens, std::int64_t states,
                           std::uint32_t page_tokens, std::uint32_t chunk_tokens, std::uint32_t grid_tokens,
                           std::uint32_t track_interval_tokens, std::uint32_t slots_per_request,
                           double prefill_s_per_token, double decode_s_per_token,
                           std::uint32_t max_running_requests, const marconi::TuningOptions& tuning,
                           const marconi::Objective& objective) {
    ReplayOptions options;
    options.preset = bindings::parse<Preset>(
        "preset", preset, {{"default", Preset::kDefault}, {"paper-artifact", Preset::kPaperArtifact}});
    options.policy.name = policy;
    options.policy.alpha = alpha;
    options.policy.recency = bindings::parse_recency(recency);
    options.policy.bytes = bindings::parse_bytes(bytes);
    options.policy.min_branch_gain_tokens = min_branch_gain_tokens;
    options.policy.admits_prompt_end = admits_prompt_end;
    options.tunes_alpha = tunes_alpha;
    options.budget =
        bindings::parse<Budget>("budget", budget, {{"bytes", Budget::kBytes}, {"sglang", Budget::kSglang}});
    options.pools = {kv_tokens,        states, page_tokens, chunk_tokens, grid_tokens, track_interval_tokens,
                     slots_per_request};
    options.tuning = tuning;
    options.objective = objective;
    options.service = {prefill_s_per_token, decode_s_per_token, max_running_requests};
    options.capacity_bytes = capacity_bytes;
    options.cost = cost;
    validate(options);
    return options;
}

LayerwiseCost make_cost(double linear_flops_per_token, double quadratic_flops_per_token_squared,
                        std::int64_t kv_bytes_per_token, std::int64_t state_bytes, double ssm_flops_per_token,
                        double attention_linear_flops, double attention_quadratic_flops,
                        double attention_layers, double mlp_flops_per_token, double mlp_layers) {
    return {{linear_flops_per_token, quadratic_flops_per_token_squared, kv_bytes_per_token, state_bytes},
            ssm_flops_per_token,
            attention_linear_flops,
            attention_quadratic_flops,
            attention_layers,
            mlp_flops_per_token,
            mlp_layers};
}

template <typename Row, typename Value>
py::array_t<Value> column(const std::vector<Row>& rows, Value Row::* member) {
    py::array_t<Value> values(static_cast<py::ssize_t>(rows.size()));
    Value* out = values.mutable_data();
    for (const Row& row : rows) *out++ = row.*member;
    return values;
}

void bind_traces(py::module_& m) {
    py::class_<Trace, std::shared_ptr<Trace>>(m, "Trace")
        .def("__len__", [](const Trace& trace) { return trace.requests.size(); })
        .def_property_readonly("prompt_tokens", &Trace::prompt_tokens)
        .def("prompt_lengths",
             [](const Trace& trace) { return column(trace.requests, &Request::prompt_tokens); })
        .def("reply_lengths",
             [](const Trace& trace) { return column(trace.requests, &Request::reply_tokens); })
        .def("arrivals_s", [](const Trace& trace) { return column(trace.requests, &Request::arrival_s); })
        .def_property_readonly("nodes", [](const Trace& trace) { return trace.tree.size(); })
        .def_property_readonly("memory_bytes", &Trace::memory_bytes);

    py::class_<TokenTraceBuilder>(m, "TokenTraceBuilder")
        .def(py::init<>())
        .def(
            "add",
            [](TokenTraceBuilder& builder, const py::array& prompt, const py::array& reply,
               double arrival_s) {
                return builder.add(tokens_of(prompt, "prompt"), tokens_of(reply, "reply"), arrival_s);
            },
            py::arg("prompt"), py::arg("reply"), py::arg("arrival_s") = 0.0)
        .def(
            "add_continuation",
            [](TokenTraceBuilder& builder, std::size_t base, std::uint32_t keep_tokens,
               const py::array& added, const py::array& reply, double arrival_s) {
                return builder.add_continuation(base, keep_tokens, tokens_of(added, "added"),
                                                tokens_of(reply, "reply"), arrival_s);
            },
            py::arg("base"), py::arg("keep_tokens"), py::arg("added"), py::arg("reply"),
            py::arg("arrival_s") = 0.0)
        .def(
            "match_tokens",
            [](const TokenTraceBuilder& builder, const py::array& prompt) {
                return builder.match_tokens(tokens_of(prompt, "prompt"));
            },
            py::arg("prompt"))
        .def("__len__", &TokenTraceBuilder::size)
        .def_property_readonly("memory_bytes", &TokenTraceBuilder::memory_bytes)
        .def("build",
             [](const TokenTraceBuilder& builder) { return std::make_shared<Trace>(builder.build()); });

    py::class_<BlockTraceBuilder>(m, "BlockTraceBuilder")
        .def(py::init<std::uint32_t>(), py::arg("block_tokens"))
        .def(
            "add",
            [](BlockTraceBuilder& builder, const py::array& whole_blocks, std::uint32_t prompt_tokens,
               std::uint32_t reply_tokens, std::int64_t session, double arrival_s) {
                return builder.add(span_of<std::uint64_t>(whole_blocks, "whole_blocks"), prompt_tokens,
                                   reply_tokens, session, arrival_s);
            },
            py::arg("whole_blocks"), py::arg("prompt_tokens"), py::arg("reply_tokens"),
            py::arg("session") = -1, py::arg("arrival_s") = 0.0)
        .def("__len__", &BlockTraceBuilder::size)
        .def_property_readonly("memory_bytes", &BlockTraceBuilder::memory_bytes)
        .def("build",
             [](const BlockTraceBuilder& builder) { return std::make_shared<Trace>(builder.build()); });
}

void bind_results(py::module_& m) {
    const auto result = py::class_<ReplayResult>(m, "ReplayResult")
                            .def("__len__", [](const ReplayResult& r) { return r.outcomes.size(); })
                            .def_readonly("alpha", &ReplayResult::alpha)
                            .def_readonly("tuned_after", &ReplayResult::tuned_after)
                            .def_readonly("total_hit_tokens", &ReplayResult::hit_tokens)
                            .def_readonly("total_flops_saved", &ReplayResult::flops_saved);
    const auto add_column = [&](const char* name, auto member) {
        py::class_<ReplayResult>(result).def_property_readonly(
            name, [member](const ReplayResult& r) { return column(r.outcomes, member); });
    };
    py::class_<ReplayResult>(result).def_property_readonly("windows", [](const ReplayResult& r) {
        py::list windows;
        for (const marconi::TunedWindow& window : r.windows) {
            windows.append(py::dict(
                py::arg("first_request") = window.first_request, py::arg("requests") = window.requests,
                py::arg("present_form") = window.present_form, py::arg("chosen_form") = window.chosen_form,
                py::arg("hit_tokens") = window.hit_tokens, py::arg("flops_saved") = window.flops_saved));
        }
        return windows;
    });
    add_column("hit_tokens", &Outcome::hit_tokens);
    add_column("never_seen_tokens", &Outcome::never_seen_tokens);
    add_column("not_admitted_tokens", &Outcome::not_admitted_tokens);
    add_column("evicted_tokens", &Outcome::evicted_tokens);
    add_column("in_flight_tokens", &Outcome::in_flight_tokens);
    add_column("flops_saved", &Outcome::flops_saved);
    add_column("kv_bytes", &Outcome::kv_bytes);
    add_column("state_bytes", &Outcome::state_bytes);
    add_column("leaf_victims", &Outcome::leaf_victims);
    add_column("inner_victims", &Outcome::inner_victims);
    add_column("is_cached", &Outcome::is_cached);
}

void bind_search(py::module_& m) {
    py::class_<LayerwiseCost>(m, "LayerwiseCost")
        .def(py::init(&make_cost), py::kw_only(), py::arg("linear_flops_per_token"),
             py::arg("quadratic_flops_per_token_squared"), py::arg("kv_bytes_per_token"),
             py::arg("state_bytes"), py::arg("ssm_flops_per_token") = 0.0,
             py::arg("attention_linear_flops") = 0.0, py::arg("attention_quadratic_flops") = 0.0,
             py::arg("attention_layers") = 0.0, py::arg("mlp_flops_per_token") = 0.0,
             py::arg("mlp_layers") = 0.0);

    py::class_<ReplayOptions>(m, "ReplayOptions")
        .def(py::init(&make_options), py::arg("policy"), py::arg("capacity_bytes"), py::arg("cost"),
             py::kw_only(), py::arg("alpha") = 0.0, py::arg("tunes_alpha") = false,
             py::arg("preset") = "default", py::arg("recency") = "linear", py::arg("bytes") = "own",
             py::arg("min_branch_gain_tokens") = 32, py::arg("admits_prompt_end") = false,
             py::arg("budget") = "bytes", py::arg("kv_tokens") = 0, py::arg("states") = 0,
             py::arg("page_tokens") = 1, py::arg("chunk_tokens") = 8192, py::arg("grid_tokens") = 1,
             py::arg("track_interval_tokens") = 0, py::arg("slots_per_request") = 1,
             py::arg("prefill_s_per_token") = 0.0, py::arg("decode_s_per_token") = 0.0,
             py::arg("max_running_requests") = 256, py::arg("tuning") = marconi::TuningOptions{},
             py::arg("objective") = marconi::Objective{});

    py::class_<Search>(m, "Search")
        .def(py::init([](const std::shared_ptr<Trace>& trace, const std::vector<ReplayOptions>& runs,
                         int threads) { return std::make_unique<Search>(trace, runs, threads); }),
             py::arg("trace"), py::arg("runs"), py::arg("threads"), py::call_guard<py::gil_scoped_release>())
        .def("cancel", &Search::cancel)
        .def_property_readonly("is_done", &Search::is_done)
        .def_property_readonly("is_cancelled", &Search::is_cancelled)
        .def_property_readonly("served_requests", &Search::served_requests)
        .def_property_readonly("total_requests", &Search::total_requests)
        .def("results", &Search::results, py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_simulator(py::module_& m) {
    bind_traces(m);
    bind_results(m);
    bind_search(m);
}
