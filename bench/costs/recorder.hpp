// Measures operations: for each batch of calls, the mean time of a call.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace saeta::bench {

inline constexpr std::size_t operations_in_batch = 64;

struct cost {
  std::string group;
  std::string operation;
  std::vector<double> nanoseconds; ///< per operation: one mean for each batch
};

class cost_recorder {
public:
  /// @param batches  the number of batches that count; a quarter as many run first as a warm-up
  explicit cost_recorder(std::size_t batches) : batches_(batches) {}

  /// @param prepare  called before each batch, not timed
  /// @param act      the operation, called with its number in the batch
  template <class Prepare, class Act>
  void measure(std::string group, std::string text, const Prepare& prepare, const Act& act) {
    cost& into = open(std::move(group), std::move(text));
    for (std::size_t batch = 0; batch < batches_ + warm(); ++batch) {
      prepare();
      add(into, batch, time_batch(act));
    }
  }
  /// Times an operation and the operation that undoes it separately. `undo` runs after all calls of `act`.
  template <class Prepare, class Act, class Undo>
  void measure_both(std::string group, std::pair<std::string, std::string> operations, const Prepare& prepare,
                    const Act& act, const Undo& undo) {
    open(group, std::move(operations.first));
    open(std::move(group), std::move(operations.second));
    for (std::size_t batch = 0; batch < batches_ + warm(); ++batch) {
      prepare();
      add(costs_[costs_.size() - 2], batch, time_batch(act));
      add(costs_.back(), batch, time_batch(undo));
    }
  }

  [[nodiscard]] const std::vector<cost>& costs() const noexcept { return costs_; }

private:
  [[nodiscard]] std::size_t warm() const noexcept { return batches_ / 4; }
  cost& open(std::string group, std::string text) {
    return costs_.emplace_back(cost{std::move(group), std::move(text), {}});
  }
  void add(cost& to, std::size_t batch, double nanoseconds) const {
    if (batch >= warm()) {
      to.nanoseconds.push_back(nanoseconds);
    }
  }
  template <class Act>
  static double time_batch(const Act& act) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < operations_in_batch; ++i) {
      act(i);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return took.count() / static_cast<double>(operations_in_batch);
  }

  std::size_t batches_;
  std::vector<cost> costs_;
};

} // namespace saeta::bench
