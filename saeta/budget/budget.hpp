// A budget: a hard limit in bytes with exact accounting; budgets form a tree.
//
// What      A root stands for a device, its children for whoever gets a share: a query, a session, a framework. Each has
//           a limit of its own. `try_charge` takes bytes from a budget and all its ancestors, or from none, before any
//           memory is asked for; `refund` gives exactly them back. `reserved` bytes belong to reservations
//           (budget/reservation.hpp) and count as used.
// Owner     Shared; a child keeps its parent alive. Whoever was charged refunds before it lets the budget go.
// Order     Every number is exact at every instant, as if all calls came one after the other: `current` is what charges
//           took and refunds have not given back, a refused charge never shows in `current` or `peak`, not even for a
//           moment from another thread, and `current + reserved` never exceeds `limit` unless the limit was lowered.
// Speed     Each thread spends from a small credit of its own, taken in advance. Unspent credit is not counted in
//           `current`; it is called back before any charge is refused, and never lets `peak` pass unseen
//           (tree.hpp says how). What a call costs does not depend on the number of budgets beside it or below it.
// Thread    Any.
// Failure   error budget_exceeded with its numbers (base/error.hpp); invalid_argument for limits.
#pragma once

#include "saeta/base/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

namespace saeta {

class budget_tree; // the shared bookkeeping of a root and its descendants, private to the implementation
class reservation;

/// Bytes, but for the last two.
struct budget_statistics {
  std::uint64_t limit = 0;
  std::uint64_t current = 0;   ///< charged, children's charges included
  std::uint64_t reserved = 0;  ///< promised to reservations and not drawn yet
  std::uint64_t remaining = 0; ///< what a charge may take now: of this budget and of every ancestor
  std::uint64_t peak = 0;      ///< highest `current` since the last reset_peak
  std::uint64_t requests = 0;  ///< accepted charges, those of 0 bytes and drawn ones too
  std::uint64_t refused = 0;   ///< counted where the room was missing, and at the budget that was asked

  friend bool operator==(const budget_statistics&, const budget_statistics&) = default;
};

/// A span of time that is measured apart, nested at will: what a budget saw since the window was opened.
/// Owner: whoever opened it; it keeps its budget alive.
class budget_window {
public:
  budget_window(budget_window&&) noexcept;
  budget_window& operator=(budget_window&&) = delete;
  ~budget_window();

  struct values {
    std::uint64_t start = 0;    ///< `current` when the window was opened, bytes
    std::uint64_t current = 0;  ///< bytes now
    std::uint64_t peak = 0;     ///< highest `current` inside the window, bytes
    std::uint64_t requests = 0; ///< accepted inside the window
    std::uint64_t refused = 0;
  };
  [[nodiscard]] values read() const;

private:
  friend class budget;
  friend class budget_tree;
  struct state;
  explicit budget_window(std::unique_ptr<state> opened);
  std::unique_ptr<state> state_;
};

class budget : public std::enable_shared_from_this<budget> {
public:
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  using time_point = std::chrono::steady_clock::time_point;

  /// A root. @param name  names the budget in refusals ("cuda:0").
  static std::shared_ptr<budget> create(std::string name, std::uint64_t limit = unlimited);
  /// A child whose charges count here too. Its limit may be larger than what is left here.
  [[nodiscard]] std::shared_ptr<budget> make_child(std::string name, std::uint64_t limit = unlimited);
  budget(const budget&) = delete;
  budget& operator=(const budget&) = delete;
  ~budget();

  /// Takes `bytes` here and from every ancestor, or changes nothing and returns false. Where somebody waits in line
  /// for room in one of these budgets (`charge_by`), nobody who comes later takes from it.
  [[nodiscard]] bool try_charge(std::uint64_t bytes) noexcept;
  /// As try_charge, but waits in line, first come first served, until the bytes are there or `deadline` has passed.
  /// A request that can never fit (larger than a limit here or above, or of a budget that is closed) does not wait, and one that
  /// waits when that comes about is sent away.
  /// @throws what the interrupt hook throws while it waits (base/interrupt.hpp); then nothing is charged.
  [[nodiscard]] bool charge_by(std::uint64_t bytes, time_point deadline);
  /// As try_charge, but a charge that fails counts as refused, and its numbers are returned: those of the nearest budget,
  /// here or above, that has no room, of the moment at which it had none. Nothing when it was charged.
  [[nodiscard]] std::optional<budget_refusal> charge_or_refuse(std::uint64_t bytes);
  /// Sends those away who stand in line here and below, for good. What is charged stays, and what has room is charged.
  void close() noexcept;
  /// Whether this budget or one above is closed.
  [[nodiscard]] bool closed() const noexcept;
  /// Whether a request can't be granted whatever others give back.
  [[nodiscard]] bool can_never_fit(std::uint64_t bytes) const noexcept;
  /// How many stand in line, in the whole tree.
  [[nodiscard]] std::size_t waiting() const noexcept;
  /// Gives back what successful charges or draws took.
  void refund(std::uint64_t bytes) noexcept;

  [[nodiscard]] budget_statistics statistics() const noexcept;
  /// Restarts the peak from the live level.
  void reset_peak() noexcept;
  [[nodiscard]] budget_window open_window();
  /// @throws error invalid_argument when more than `limit` bytes are live or reserved; the old limit stays.
  void set_limit(std::uint64_t limit);
  /// The limit alone, without a lock.
  [[nodiscard]] std::uint64_t limit() const noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Of this budget alone in the process, and never 0. Unlike an address it may be kept after the budget has gone.
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }
  [[nodiscard]] const std::shared_ptr<budget>& parent() const noexcept { return parent_; }
  /// True for this budget itself and for each of its ancestors.
  [[nodiscard]] bool is_within(const budget& ancestor) const noexcept;

private:
  friend class budget_tree;
  friend class budget_window;
  friend class reservation;
  friend struct budget_probe; // probe.hpp
  struct node;
  budget(std::string name, std::shared_ptr<budget> parent, std::shared_ptr<budget_tree> tree,
         std::uint64_t limit);
  [[nodiscard]] static std::uint64_t next_serial() noexcept;

  std::string name_;
  std::uint64_t serial_ = next_serial();
  std::shared_ptr<budget> parent_;
  std::shared_ptr<budget_tree> tree_;
  std::unique_ptr<node> node_;
};

} // namespace saeta
