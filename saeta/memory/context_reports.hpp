// What a context tells about its memory.
//
// Owner     A view of a context that is made by `context::reports` and must not outlive it.
// Order     Each number is a consistent snapshot; two of them may be of different moments.
// Thread    Any.
// Failure   device in a child of fork.
#pragma once

#include "saeta/budget/budget.hpp"
#include "saeta/observe/event_log.hpp"
#include "saeta/observe/ledger.hpp"

#include <cstdint>
#include <memory>

namespace saeta {

class context;
class memory_sink;

struct memory_statistics {
  budget_statistics budget;
  ledger_totals ledger;
  std::uint64_t pinned = 0;    ///< page-locked bytes held
  std::uint64_t host_held = 0; ///< pageable host memory taken for downloads: in use, or kept for the next
  std::uint64_t held = 0;      ///< bytes taken from the device: in use, cached, or lost to rounding
  std::uint64_t pending_releases = 0; ///< waiting for work to finish
};

class context_reports {
public:
  explicit context_reports(const context& of) noexcept : of_(of) {}

  [[nodiscard]] memory_statistics statistics() const;
  /// Live bytes by tag: of everything, or for a derived context of what it holds.
  [[nodiscard]] bytes_by_name live_by_tag() const;
  /// Live bytes of own buffers by budget, on the whole device.
  [[nodiscard]] bytes_by_name live_by_budget() const;
  /// Bytes of the device that are in use and not held by this context: other libraries, other processes. 0 on the host.
  [[nodiscard]] std::uint64_t foreign_bytes() const;
  [[nodiscard]] const std::shared_ptr<event_log>& log() const noexcept;
  /// What was recorded since the context was made. Null unless `context_options::recorded` asked for it.
  [[nodiscard]] const std::shared_ptr<memory_sink>& recorder() const noexcept;

private:
  const context& of_;
};

} // namespace saeta
