#include "saeta/observe/read_clock.hpp"

#include <atomic>

namespace saeta {
namespace {

struct part_sum {
  std::atomic<std::int64_t> nanoseconds{0};
  std::atomic<std::uint64_t> bytes{0};
};

std::array<part_sum, read_parts> sums;
/// Number of the recording that runs, 0 if none does. A scope that began in an earlier one does not count.
std::atomic<std::uint32_t> current{0};
std::atomic<std::uint32_t> last_recording{0};
std::atomic<std::int64_t> threads_of_ring{1};
thread_local timed_part* innermost = nullptr;

part_sum& sum_of(read_part which) noexcept { return sums[static_cast<std::size_t>(which)]; }

} // namespace

void read_clock::start(std::size_t threads) noexcept {
  current = 0;
  threads_of_ring = static_cast<std::int64_t>(threads);
  for (part_sum& sum : sums) {
    sum.nanoseconds = 0;
    sum.bytes = 0;
  }
  std::uint32_t next = ++last_recording;
  current = next == 0 ? ++last_recording : next;
}

bool read_clock::running() noexcept { return current.load(std::memory_order_relaxed) != 0; }

part_times read_clock::stop() noexcept {
  part_times result;
  if (current.exchange(0) != 0) {
    for (std::size_t i = 0; i < read_parts; ++i) {
      result.parts[i] = {static_cast<double>(sums[i].nanoseconds.load()) / 1e9, sums[i].bytes.load()};
    }
  }
  return result;
}

timed_part::timed_part(read_part which, std::uint64_t bytes) noexcept
    : recording_(current.load(std::memory_order_relaxed)), which_(which) {
  if (recording_ == 0) {
    return;
  }
  since_ = clock::now();
  outer_ = innermost;
  if (outer_ != nullptr) {
    outer_->count(since_);
  }
  innermost = this;
  sum_of(which_).bytes.fetch_add(bytes, std::memory_order_relaxed);
}

timed_part::~timed_part() {
  if (recording_ == 0) {
    return;
  }
  const clock::time_point now = clock::now();
  count(now);
  innermost = outer_;
  if (outer_ != nullptr) {
    outer_->since_ = now;
  }
}

void timed_part::count(clock::time_point until) const noexcept {
  if (current.load(std::memory_order_relaxed) == recording_) {
    const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(until - since_);
    const bool of_task = outer_ != nullptr || which_ == read_part::task;
    sum_of(which_).nanoseconds.fetch_add(spent.count() * (of_task ? 1 : threads_of_ring.load()),
                                         std::memory_order_relaxed);
  }
}

} // namespace saeta
