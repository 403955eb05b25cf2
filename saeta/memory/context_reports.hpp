// Reports of a context about its memory.
//
// Owner     A view of a context, made by `context::reports`. It must not outlive the context.
// Order     Each number is a consistent snapshot; two numbers may be of different moments.
// Thread    Any.
// Failure   error device in a child of fork.
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
  std::uint64_t pinned = 0;           ///< page-locked bytes held
  std::uint64_t host_held = 0;        ///< pageable host memory for downloads: in use, or kept for later
  std::uint64_t held = 0;             ///< bytes taken from the device: in use, cached, or lost to rounding
  std::uint64_t pending_releases = 0; ///< waiting for work to finish
};

class context_reports {
public:
  explicit context_reports(const context& of) noexcept : of_(of) {}

  [[nodiscard]] memory_statistics statistics() const;
  /// Live bytes by tag: of the whole device, or for a derived context, of its own.
  [[nodiscard]] bytes_by_name live_by_tag() const;
  /// Live bytes of own buffers by budget, for the whole device.
  [[nodiscard]] bytes_by_name live_by_budget() const;
  /// Bytes of the device that are used by other libraries and processes. 0 on the host.
  [[nodiscard]] std::uint64_t foreign_bytes() const;
  [[nodiscard]] const std::shared_ptr<event_log>& log() const noexcept;
  /// The records since the context was made. Null unless `context_options::recorded` asked for them.
  [[nodiscard]] const std::shared_ptr<memory_sink>& recorder() const noexcept;

private:
  const context& of_;
};

} // namespace saeta
