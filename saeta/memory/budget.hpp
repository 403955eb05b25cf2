// A budget: a hard limit in bytes with exact accounting.
//
// What      `charge` takes bytes by compare-and-swap before any memory is asked for, `refund` gives exactly them back.
//           `reserved` bytes belong to reservations and count as used.
// Order     `current` never exceeds `limit` at any instant unless the limit was lowered below it; a refused charge never
//           shows in `current` or `peak`, not even for a moment from another thread.
// Thread    Any; no locks.
// Failure   error budget_exceeded with its numbers (base/error.hpp).
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/memory/resource.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace saeta {

/// Bytes, but for the last two.
struct budget_statistics {
  std::uint64_t limit = 0;
  std::uint64_t current = 0;
  std::uint64_t remaining = 0;
  std::uint64_t peak = 0;     ///< highest accepted `current` since the last reset_peak
  std::uint64_t requests = 0; ///< accepted charges, those of 0 bytes too
  std::uint64_t refused = 0;

  friend bool operator==(const budget_statistics&, const budget_statistics&) = default;
};

class budget {
public:
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  /// @param name  names the budget in refusals ("cuda:0").
  explicit budget(std::string name, std::uint64_t limit = unlimited)
      : name_(std::move(name)), limit_(limit) {}
  budget(const budget&) = delete;
  budget& operator=(const budget&) = delete;

  /// Takes `bytes` or changes nothing and returns false; counts neither.
  [[nodiscard]] bool try_charge(std::uint64_t bytes) noexcept;
  /// Gives back what a successful charge took.
  void refund(std::uint64_t bytes) noexcept;
  /// Counts a refusal and returns its numbers; the caller adds the owners and throws.
  [[nodiscard]] budget_refusal refuse(std::uint64_t bytes) noexcept;

  [[nodiscard]] budget_statistics statistics() const noexcept;
  /// Restarts the peak from the live level.
  void reset_peak() noexcept;
  /// @throws error invalid_argument when more than `limit` bytes are live; the old limit stays.
  void set_limit(std::uint64_t limit);
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
  std::string name_;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> current_{0};
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> refused_{0};
};

/// Decorator: charges a budget before it asks upstream. When a charge does not fit it calls `relief` (may be empty) with
/// 0, 1, 2, ... to make room, as long as that returns true, and refuses after. Throws budget_exceeded without owners;
/// the context adds them.
class budget_resource final : public resource {
public:
  using relief_hook = std::function<bool(std::size_t attempt)>;

  budget_resource(std::shared_ptr<resource> upstream, std::shared_ptr<budget> limit, relief_hook relief = {})
      : upstream_(std::move(upstream)), budget_(std::move(limit)), relief_(std::move(relief)) {}

  [[nodiscard]] block allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) override;
  [[nodiscard]] bool deallocate(const block& what, stream_ref stream) noexcept override;
  std::size_t trim() override { return upstream_->trim(); }
  [[nodiscard]] bool stream_ordered() const noexcept override { return upstream_->stream_ordered(); }

private:
  std::shared_ptr<resource> upstream_;
  std::shared_ptr<budget> budget_;
  relief_hook relief_;
};

} // namespace saeta
