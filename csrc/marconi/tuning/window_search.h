// Scores every form on a window in native threads of low priority.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "marconi/tuning/recorder.h"

namespace marconi {

// Starts on construction, stops and joins on destruction. Scores do not depend on the number of threads.
class WindowSearch {
  public:
    // Throws std::invalid_argument for threads < 1.
    WindowSearch(std::unique_ptr<RecordedWindow> window, int threads);
    WindowSearch(const WindowSearch&) = delete;
    WindowSearch& operator=(const WindowSearch&) = delete;
    ~WindowSearch();

    void cancel() { is_cancelled_ = true; }
    [[nodiscard]] bool is_done() const { return finished_threads_ == threads_.size(); }
    // Waits for the end; in the order of tuning_forms(). Rethrows what a replay threw.
    const std::vector<WindowScore>& scores();

  private:
    void join();
    void work();

    std::unique_ptr<RecordedWindow> window_;
    std::vector<UtilityForm> forms_;
    std::vector<WindowScore> scores_;
    std::atomic<std::size_t> next_form_{0};
    std::atomic<std::size_t> finished_threads_{0};
    std::atomic<bool> is_cancelled_{false};
    std::mutex mutex_;
    std::exception_ptr failure_;
    std::vector<std::thread> threads_;
};

}  // namespace marconi
