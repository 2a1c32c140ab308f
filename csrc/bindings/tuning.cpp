#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "marconi/tuning/recorder.h"
#include "marconi/tuning/schedule.h"
#include "marconi/tuning/window_search.h"

namespace py = pybind11;
using bindings::tokens_of;
using marconi::LiveNode;
using marconi::Objective;
using marconi::RecordedWindow;
using marconi::TuningOptions;
using marconi::TuningSchedule;
using marconi::UtilityForm;
using marconi::WindowRecorder;
using marconi::WindowScore;
using marconi::WindowSearch;

namespace {

using Node = std::tuple<std::int64_t, std::int64_t, std::uint32_t, std::uint64_t, bool>;

using Score = std::tuple<double, double, double, double>;

void open_window(WindowRecorder& recorder, const std::vector<Node>& nodes, const py::array& edge_tokens,
                 std::uint64_t clock) {
    std::vector<LiveNode> live;
    live.reserve(nodes.size());
    for (const auto& [id, parent, tokens, last_access, has_state] : nodes)
        live.push_back({id, parent, tokens, last_access, has_state});
    recorder.open(std::move(live), tokens_of(edge_tokens, "edge_tokens"), clock);
}

std::tuple<double, std::string, std::string> shown(const UtilityForm& form) {
    return {form.alpha, form.recency == marconi::RecencyForm::kLinear ? "linear" : "inverse_age",
            form.bytes == marconi::BytesForm::kOwn ? "own" : "path"};
}

void bind_schedule(py::module_& m) {
    py::class_<TuningOptions>(m, "TuningOptions")
        .def(py::init([](double bootstrap_multiplier, std::size_t min_window_requests,
                         std::size_t max_window_requests, std::size_t retune_interval_requests,
                         double hit_rate_drop) {
                 const TuningOptions options{bootstrap_multiplier, min_window_requests, max_window_requests,
                                             retune_interval_requests, hit_rate_drop};
                 validate(options);
                 return options;
             }),
             py::kw_only(), py::arg("bootstrap_multiplier") = 5.0, py::arg("min_window_requests") = 100,
             py::arg("max_window_requests") = 5000, py::arg("retune_interval_requests") = 2000,
             py::arg("hit_rate_drop") = 0.25);

    py::class_<Objective>(m, "Objective")
        .def(py::init([](bool counts_flops, double min_gain) { return Objective{counts_flops, min_gain}; }),
             py::kw_only(), py::arg("counts_flops") = false, py::arg("min_gain") = 0.02);

    py::class_<TuningSchedule>(m, "TuningSchedule")
        .def(py::init<const TuningOptions&>(), py::arg("options"))
        .def(
            "request_started",
            [](TuningSchedule& schedule, std::uint32_t hit_tokens, std::uint32_t prompt_tokens,
               bool has_evicted) {
                switch (schedule.request_started(hit_tokens, prompt_tokens, has_evicted)) {
                    case TuningSchedule::Event::kOpen:
                        return "open";
                    case TuningSchedule::Event::kClose:
                        return "close";
                    case TuningSchedule::Event::kNone:
                        break;
                }
                return "";
            },
            py::arg("hit_tokens"), py::arg("prompt_tokens"), py::arg("has_evicted"))
        .def("close_early", &TuningSchedule::close_early)
        .def_property_readonly("is_collecting",
                               [](const TuningSchedule& schedule) {
                                   return schedule.phase() == TuningSchedule::Phase::kCollecting;
                               })
        .def_property_readonly("requests", &TuningSchedule::requests)
        .def_property_readonly("first_eviction", &TuningSchedule::first_eviction)
        .def_property_readonly("window_requests", &TuningSchedule::window_requests)
        .def_property_readonly("collected_requests", &TuningSchedule::collected_requests);
}

void bind_window(py::module_& m) {
    py::class_<RecordedWindow>(m, "RecordedWindow").def("__len__", [](const RecordedWindow& window) {
        return window.steps().size();
    });

    py::class_<WindowRecorder>(m, "WindowRecorder")
        .def(
            py::init([](double linear_flops_per_token, double quadratic_flops_per_token_squared,
                        std::int64_t kv_bytes_per_token, std::int64_t state_bytes, std::int64_t kv_tokens,
                        std::int64_t states, std::uint32_t page_tokens, std::uint32_t chunk_tokens,
                        std::uint32_t grid_tokens, std::uint32_t slots_per_request,
                        std::uint32_t min_branch_gain_tokens, bool admits_prompt_end, std::size_t max_bytes) {
                const marconi::PoolAdmission admission{true, false, true, admits_prompt_end,
                                                       min_branch_gain_tokens};
                return WindowRecorder(
                    {{kv_tokens, states, page_tokens, chunk_tokens, grid_tokens, 0, slots_per_request},
                     admission,
                     {linear_flops_per_token, quadratic_flops_per_token_squared, kv_bytes_per_token,
                      state_bytes}},
                    max_bytes);
            }),
            py::kw_only(), py::arg("linear_flops_per_token"), py::arg("quadratic_flops_per_token_squared"),
            py::arg("kv_bytes_per_token"), py::arg("state_bytes"), py::arg("kv_tokens"), py::arg("states"),
            py::arg("page_tokens"), py::arg("chunk_tokens"), py::arg("grid_tokens"),
            py::arg("slots_per_request"), py::arg("min_branch_gain_tokens"), py::arg("admits_prompt_end"),
            py::arg("max_bytes"))
        .def("open", &open_window, py::arg("nodes"), py::arg("edge_tokens"), py::arg("clock"))
        .def(
            "request_started",
            [](WindowRecorder& recorder, std::int64_t number, const py::array& prompt) {
                recorder.request_started(number, tokens_of(prompt, "prompt"));
            },
            py::arg("number"), py::arg("prompt"))
        .def(
            "request_finished",
            [](WindowRecorder& recorder, std::int64_t number, const py::array& reply) {
                recorder.request_finished(number, tokens_of(reply, "reply"));
            },
            py::arg("number"), py::arg("reply"))
        .def("request_dropped", &WindowRecorder::request_dropped, py::arg("number"))
        .def_property_readonly("memory_bytes", &WindowRecorder::memory_bytes)
        .def_property_readonly("is_full", &WindowRecorder::is_full)
        .def("close", &WindowRecorder::close);

    py::class_<WindowSearch>(m, "WindowSearch")
        // Takes the window over: pybind11 cannot move out of a Python object, so it closes the recorder
        // itself.
        .def(py::init([](WindowRecorder& recorder, int threads) {
                 return std::make_unique<WindowSearch>(recorder.close(), threads);
             }),
             py::arg("recorder"), py::arg("threads"))
        .def("cancel", &WindowSearch::cancel)
        .def_property_readonly("is_done", &WindowSearch::is_done)
        .def(
            "scores",
            [](WindowSearch& search) {
                std::vector<Score> scores;
                for (const WindowScore& score : search.scores()) {
                    scores.emplace_back(score.hit_tokens, score.flops_saved, score.late_hit_tokens,
                                        score.late_flops_saved);
                }
                return scores;
            },
            py::call_guard<py::gil_scoped_release>());

    m.def("tuning_forms", [] {
        std::vector<std::tuple<double, std::string, std::string>> forms;
        for (const UtilityForm& form : marconi::tuning_forms()) forms.push_back(shown(form));
        return forms;
    });
    m.def(
        "choose_form",
        [](const std::vector<Score>& scores, std::size_t present, const Objective& objective) {
            std::vector<WindowScore> native;
            native.reserve(scores.size());
            for (const auto& [hits, flops, late_hits, late_flops] : scores)
                native.push_back({hits, flops, late_hits, late_flops});
            if (present >= native.size()) throw std::invalid_argument("present must be one of the scores");
            return choose_form(native, present, objective);
        },
        py::arg("scores"), py::arg("present"), py::arg("objective"));
}

}  // namespace

void bind_tuning(py::module_& m) {
    bind_schedule(m);
    bind_window(m);
}
