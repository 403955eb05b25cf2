// Decorator: charges a budget before it calls upstream, so that a limit is never exceeded, not even for a
// moment.
//
// @code
// const std::shared_ptr<budget> limit = budget::create("scratch", 1 << 20);
// const auto bounded = std::make_shared<budget_resource>(upstream, limit);
// const block memory =
//     bounded->allocate(4096, 0, stream);                 // charged first; error budget_exceeded if refused
// const bool freed = bounded->deallocate(memory, stream); // refunds exactly these bytes
// @endcode
//
// Order     Reserve, then allocate: every failure path returns exactly the bytes it took. A refund follows a
//           successful `deallocate`; after a failed one the block stays charged.
// Pressure  When a charge does not fit, or upstream has no memory, `relief` is called to make room, with
//           attempt 0, 1, 2, ... for as long as it returns true. Then the request fails.
// Failure   budget_exceeded without owners (the context adds them), closed if the budget was closed while the
//           request waited, or what upstream throws.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/budget/budget.hpp"
#include "saeta/resource/resource.hpp"

#include <chrono>
#include <functional>
#include <optional>

namespace SAETA_EXPORT saeta {

/// A request that does not fit, as it is passed to `relief`.
struct shortage {
  shortage(std::uint64_t missing, budget* refused_by) : bytes(missing), full(refused_by) {}
  /// Whether the request can never fit, whatever is freed.
  [[nodiscard]] bool can_never_succeed() const noexcept {
    return full != nullptr && full->can_never_fit(bytes);
  }

  std::uint64_t bytes;
  budget* full; ///< the budget that refused; null when upstream has no memory
  std::size_t attempt = 0;
  // The deadline of a relief whose wait extends over several attempts.
  std::optional<std::chrono::steady_clock::time_point> wait_until;
  std::uint64_t releases_seen = 0; ///< releases done before the latest attempt
  bool charged = false;            ///< set by a relief that obtained the bytes itself, by waiting in line
  /// Waits in line for the bytes until a time; empty: they are charged to `full`.
  std::function<bool(std::chrono::steady_clock::time_point deadline)> wait_in_line{};
  bool spilled = false; ///< set once tables have been moved to make room
};

class budget_resource final : public decorator {
public:
  using relief = std::function<bool(shortage& need)>;

  budget_resource(std::shared_ptr<resource> upstream, std::shared_ptr<budget> limit, relief make_room = {})
      : decorator(std::move(upstream)), budget_(required(std::move(limit), "limit")),
        relief_(std::move(make_room)) {}

  /// Charges bytes to a budget as a request does, with relief. @throws error budget_exceeded, closed.
  void charge(std::uint64_t bytes, budget& from);
  /// Repeats `attempt` after each relief, until it returns true or no relief is left. Returns whether the
  /// bytes were obtained. @throws error closed if the budget was closed meanwhile.
  static bool obtain(shortage& missing, const relief& make_room, const std::function<bool()>& attempt);

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;
  block ask_upstream(const allocation_request& request, const stream_ref& stream, budget& charged);
  block ask_upstream(const allocation_request& request, const stream_ref& stream);

  std::shared_ptr<budget> budget_;
  relief relief_;
};

} // namespace saeta
