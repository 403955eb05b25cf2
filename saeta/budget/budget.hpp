// A budget: a hard limit in bytes with exact accounting; budgets form a tree.
//
// @code
// const std::shared_ptr<budget> root = budget::create("cuda:0", std::uint64_t{8} << 30);
// const std::shared_ptr<budget> query = root->make_child("query", std::uint64_t{1} << 30); // keeps `root`
// const budget_window window = query->open_window();
// if (query->try_charge(4096)) { // from `query` and `root`, or from neither
//   query->refund(4096);
// }
// std::cout << window.read().peak << '\n'; // 4096
// @endcode
//
// What      The root stands for a device. A child stands for one user of it: a query, a session, a framework.
//           Each budget has its own limit. `try_charge` takes bytes from a budget and all its ancestors, or
//           from none, before memory is allocated. `refund` returns exactly those bytes. `reserved` bytes
//           belong to reservations (budget/reservation.hpp) and count as used.
// Owner     Shared; a child keeps its parent alive. A charge is refunded before its owner drops the budget.
// Order     Every number is exact at every instant, as if all calls ran one after another. `current` is what
//           was charged and not yet refunded. A refused charge never shows in `current` or `peak` to any
//           thread. `current + reserved` never exceeds `limit`.
// Speed     Each thread spends from a small credit of its own, granted in advance. Unspent credit is not
//           counted in `current`. It is called back before any charge is refused, and spending it can't raise
//           `peak` unnoticed (see tree.hpp). The cost of a call does not depend on the number of sibling or
//           descendant budgets.
// Thread    Any.
// Failure   error budget_exceeded with its numbers (base/error.hpp), and invalid_argument for limits.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/export.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

namespace SAETA_EXPORT saeta {

class budget_tree; // the bookkeeping of a root and its descendants; private to the implementation
class reservation;

/// All in bytes, except `requests` and `refused`.
struct budget_statistics {
  std::uint64_t limit = 0;
  std::uint64_t current = 0;   ///< charged, including charges of children
  std::uint64_t reserved = 0;  ///< promised to reservations and not drawn yet
  std::uint64_t remaining = 0; ///< what can be charged now within this budget and every ancestor
  std::uint64_t peak = 0;      ///< highest `current` since the last reset_peak
  std::uint64_t requests = 0;  ///< accepted charges, including those of 0 bytes and draws from reservations
  /// refusals; counted at the budget that had no room and at the budget that was asked
  std::uint64_t refused = 0;

  friend bool operator==(const budget_statistics&, const budget_statistics&) = default;
};

/// A measurement of a budget from the moment the window was opened. Windows may overlap and nest.
/// Owner: the caller that opened it. The window keeps its budget alive.
class budget_window {
public:
  budget_window(budget_window&& other) noexcept;
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

  /// Makes a root. @param name  names the budget in refusals ("cuda:0").
  [[nodiscard]] static std::shared_ptr<budget> create(std::string name, std::uint64_t limit = unlimited);
  /// Makes a child, whose charges count here too. Its limit may be larger than what is left here.
  [[nodiscard]] std::shared_ptr<budget> make_child(std::string name, std::uint64_t limit = unlimited);
  budget(const budget&) = delete;
  budget& operator=(const budget&) = delete;
  ~budget();

  /// Charges `bytes` here and to every ancestor, or changes nothing and returns false. Bytes that an earlier
  /// request waits for (`charge_by`) in one of these budgets are not available to later requests.
  [[nodiscard]] bool try_charge(std::uint64_t bytes) noexcept;
  /// Like try_charge, but waits in line, first come first served, until the bytes are available or `deadline`
  /// has passed. A request that can never fit does not wait: it exceeds a limit here or above, or one of
  /// these budgets is closed. A waiting request that can no longer fit returns false.
  /// @throws what the interrupt hook throws during the wait (base/interrupt.hpp); nothing is charged then.
  [[nodiscard]] bool charge_by(std::uint64_t bytes, time_point deadline);
  /// Like try_charge, but a failed charge counts as refused. Returns nullopt on success. Otherwise returns
  /// the numbers of the nearest budget, here or above, that had no room, at the moment of the refusal.
  [[nodiscard]] std::optional<budget_refusal> charge_or_refuse(std::uint64_t bytes);
  /// Ends all waits in line here and below, now and later. Charged bytes stay, and charges that fit still
  /// succeed.
  void close() noexcept;
  /// Whether this budget or one above is closed.
  [[nodiscard]] bool closed() const noexcept;
  /// True if no refund can ever make this request fit.
  [[nodiscard]] bool can_never_fit(std::uint64_t bytes) const noexcept;
  /// The number of requests that wait in line in the whole tree.
  [[nodiscard]] std::size_t waiting() const noexcept;
  /// Returns bytes that successful charges or draws took.
  void refund(std::uint64_t bytes) noexcept;

  [[nodiscard]] budget_statistics statistics() const noexcept;
  /// Sets the peak to the current bytes.
  void reset_peak() noexcept;
  [[nodiscard]] budget_window open_window();
  /// @throws error invalid_argument if more than `limit` bytes are charged or reserved; the old limit stays.
  void set_limit(std::uint64_t limit);
  /// Reads the limit without a lock.
  [[nodiscard]] std::uint64_t limit() const noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Unique in the process, never reused, never 0. Unlike an address, it outlives the budget.
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }
  [[nodiscard]] const std::shared_ptr<budget>& parent() const noexcept { return parent_; }
  /// True for this budget itself and for each of its ancestors.
  [[nodiscard]] bool is_within(const budget& ancestor) const noexcept;

private:
  friend class budget_tree;
  friend class budget_window;
  friend class reservation;
  friend struct budget_probe; // tests/support
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
