// Decorator: charges a budget before it asks upstream, so that a limit is never passed, not for a moment.
//
// Order     Reserve, then allocate: every failure path gives back exactly what it took. A refund follows a successful
//           `deallocate`; a failed one keeps the charge with the block.
// Pressure  When a charge does not fit, or upstream has no memory, `relief` is asked to make room with attempt 0, 1, 2,
//           ... for as long as it returns true; then the request fails.
// Failure   budget_exceeded without owners (the context adds them), closed where the budget was closed while the request waited, or
//           what upstream throws.
#pragma once

#include "saeta/budget/budget.hpp"
#include "saeta/resource/resource.hpp"

#include <chrono>
#include <functional>
#include <optional>

namespace saeta {

/// A request that does not fit, for whoever can make room.
struct shortage {
  shortage(std::uint64_t missing, budget* refused_by) : bytes(missing), full(refused_by) {}
  /// Whether no room that is made could help.
  [[nodiscard]] bool in_vain() const noexcept { return full != nullptr && full->can_never_fit(bytes); }

  std::uint64_t bytes;
  budget* full; ///< whose charge failed; null when upstream has no memory
  std::size_t attempt = 0;
  // Set by a relief that waits several times.
  std::optional<std::chrono::steady_clock::time_point> wait_until;
  std::uint64_t releases_seen = 0; ///< done before the latest attempt
  bool charged = false; ///< set by a relief that took the bytes from `full` itself, by waiting in line
};

class budget_resource final : public decorator {
public:
  using relief = std::function<bool(shortage& need)>;

  budget_resource(std::shared_ptr<resource> upstream, std::shared_ptr<budget> limit, relief make_room = {})
      : decorator(std::move(upstream)), budget_(std::move(limit)), relief_(std::move(make_room)) {}

  /// Takes bytes from a budget as a request does, with relief. @throws error budget_exceeded.
  void charge(std::uint64_t bytes, budget& from);

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;
  block ask_upstream(const allocation_request& request, const stream_ref& stream, budget& charged);
  block ask_upstream(const allocation_request& request, const stream_ref& stream);

  std::shared_ptr<budget> budget_;
  relief relief_;
};

} // namespace saeta
