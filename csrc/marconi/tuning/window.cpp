#include "marconi/tuning/window.h"

namespace marconi {

WindowScore replay_window(const PoolCache& opened, const std::vector<Step>& steps, const UtilityForm& form,
                          const Progress& progress) {
    PoolCache cache(opened, dynamic_cast<const UtilityOrder&>(opened.order()).copy_in(form));
    WindowScore score;
    for (const Step& step : steps) {
        if (progress.is_cancelled()) break;
        if (step.kind == Step::Kind::kStart) {
            if (!cache.has_room_for(step.request)) continue;
            cache.arrive(step.request);
            cache.start(step.request);
            score.hit_tokens += cache.outcome(step.request).hit_tokens;
            score.flops_saved += cache.outcome(step.request).flops_saved;
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
    std::size_t best = 0;
    for (std::size_t i = 1; i < scores.size(); ++i) {
        if (objective.of(scores[i]) > objective.of(scores[best])) best = i;
    }
    const double now = objective.of(scores[present]);
    if (objective.of(scores[best]) > now * (1 + objective.min_gain)) return best;
    return objective.of(scores[0]) > now ? 0 : present;
}

}  // namespace marconi
