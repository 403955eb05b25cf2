#include "saeta/resource/resource.hpp"

#include "saeta/base/report.hpp"

#include <atomic>

namespace saeta {

std::uint64_t next_generation() noexcept {
  // A range per thread, so that threads do not contend for the counter
  constexpr std::uint64_t at_a_time = 4096;
  static std::atomic<std::uint64_t> ranges{0};
  thread_local constinit std::uint64_t last = 0;
  if (last % at_a_time == 0) [[unlikely]] {
    last = ranges.fetch_add(1, std::memory_order_relaxed) * at_a_time;
  }
  return ++last;
}

bool resource::deallocate(const block& freed, const stream_ref& stream) noexcept {
  if (freed.pointer == nullptr) {
    return do_deallocate(freed, {}); // no stream can have used it
  }
  try {
    const point last = mark(stream);
    return deallocate(freed, std::span(&last, last.empty() ? 0U : 1U));
  } catch (...) {
    report_current_exception("a block can't be freed on this stream");
    return false;
  }
}

} // namespace saeta
