// A reservation: bytes of a budget that are promised to whoever holds it.
//
// What      Reserving is atomic: of two reservations for the whole budget exactly one succeeds. Ordinary charges see
//           the promised bytes as used. An allocation drawn from a reservation (allocation_request::draw_from) can't
//           fail for budget; when the device has no memory for it, its bytes come back here. What was drawn and is freed
//           goes back to the budget, not to the reservation.
// Owner     Move-only; keeps its budget alive. Dropping it returns what was not drawn, before or after the allocations
//           that were drawn from it. One that was moved from has no bytes and no budget: every draw fails.
// Overbook  Only when asked for: bytes that have no room are promised anyway. Drawing them is an ordinary charge, which may
//           be refused: the limit stays hard.
// Thread    Any; several threads may draw from one.
#pragma once

#include "saeta/budget/budget.hpp"

namespace saeta {

enum class overbooking { refuse, allow };

class reservation {
public:
  /// @throws error budget_exceeded when `bytes` have no room and overbooking is refused.
  static reservation make(std::shared_ptr<budget> from, std::uint64_t bytes,
                          overbooking policy = overbooking::refuse);
  reservation(reservation&&) noexcept;
  reservation& operator=(reservation&&) noexcept;
  ~reservation();

  /// Turns promised bytes into charged ones, firm ones first. False, and nothing changes, when more than is left is
  /// asked for, or when the overbooked part of it has no room.
  [[nodiscard]] bool try_draw(std::uint64_t bytes) noexcept;
  /// Undoes a draw whose allocation failed: the bytes are promised again.
  void put_back(std::uint64_t bytes) noexcept;
  /// As try_draw, but a draw that fails counts as a refusal of the budget, and its numbers are returned: those of the
  /// reservation where more than is left was asked for, those of the budget that has no room for the overbooked part
  /// otherwise. Nothing when the bytes were drawn.
  [[nodiscard]] std::optional<budget_refusal> draw_or_refuse(std::uint64_t bytes);
  /// Returns what is left to the budget; later draws fail.
  void release() noexcept;

  [[nodiscard]] std::uint64_t bytes() const noexcept;                 ///< as asked for
  [[nodiscard]] std::uint64_t left() const noexcept;                  ///< not drawn yet, firm and overbooked
  [[nodiscard]] std::uint64_t overbooked() const noexcept;            ///< the part of `left` that is not firm
  [[nodiscard]] const std::shared_ptr<budget>& from() const noexcept; ///< null for one that was moved from

private:
  struct state;
  explicit reservation(std::unique_ptr<state> made);
  std::unique_ptr<state> state_;
};

} // namespace saeta
