#include "marconi/tuning/window.h"

namespace marconi {

WindowScore replay_window(const PoolCache& opened, const std::vector<Step>& steps, const UtilityForm& form,
                          const Progress& progress) {
    PoolCache cache(opened, dynamic_cast<const UtilityOrder&>(opened.order()).copy_in(form));
    WindowScore score;
    for (std::size_t i = 0; i < steps.size() && !progress.is_cancelled(); ++i) {
        const Step& step = steps[i];
        if (step.kind == Step::Kind::kStart) {
            if (!cache.has_room_for(step.request)) continue;
            cache.arrive(step.request);
            cache.start(step.request);
            const Outcome& outcome = cache.outcome(step.request);
            score.hit_tokens += outcome.hit_tokens;
            score.flops_saved += outcome.flops_saved;
            if (i < steps.size() / 2) continue;
            score.late_hit_tokens += outcome.hit_tokens;
            score.late_flops_saved += outcome.flops_saved;
        } else if (cache.is_in_flight(step.request)) {
            if (step.kind == Step::Kind::kFinish) {
                cache.finish(step.request);
            } else {
                cache.abort(step.request);
            }
        }
    }
    return score;
}

std::vector<UtilityForm> tuning_forms() {
    std::vector<UtilityForm> forms{{}};
    for (const double alpha : {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0}) {
        for (const BytesForm bytes : {BytesForm::kOwn, BytesForm::kPath}) {
            for (const RecencyForm recency : {RecencyForm::kLinear, RecencyForm::kInverseAge})
                forms.push_back({alpha, recency, bytes});
        }
    }
    return forms;
}

std::size_t choose_form(const std::vector<WindowScore>& scores, std::size_t present,
                        const Objective& objective) {
    const WindowScore& now = scores[present];
    const double factor = 1 + objective.min_gain;
    std::size_t best = present;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        const bool wins = objective.of(scores[i]) > objective.of(now) * factor &&
                          objective.late(scores[i]) > objective.late(now) * factor;
        const bool is_better = objective.of(scores[i]) > objective.of(scores[best]);
        if (wins && is_better) best = i;
    }
    if (best != present) return best;
    return objective.of(scores[0]) > objective.of(now) ? 0 : present;
}

}  // namespace marconi
