// A reservation: bytes of a budget that are promised to its holder.
//
// @code
// reservation sort = reservation::make(ctx->memory_budget(), 64 << 20); // budget_exceeded now, not midway
// if (sort.try_draw(4096)) {            // promised bytes: no other user can take them
//   ctx->memory_budget()->refund(4096); // back to the budget
// }
// sort.release(); // returns the rest, as its destructor does
// @endcode
//
// What      Reserving is atomic: of two reservations for the whole budget, exactly one succeeds. Other
//           charges see the promised bytes as used. An allocation drawn from a reservation
//           (allocation_request::draw_from) is not refused by the budget (but see Overbook). If the device
//           has no memory for it, its bytes return to the reservation. When a drawn allocation is freed, its
//           bytes return to the budget, not to the reservation.
// Owner     Move-only; keeps its budget alive. Dropping it returns the bytes that were not drawn. It may be
//           dropped before or after the allocations drawn from it. A moved-from reservation has no bytes and
//           no budget, and every draw fails.
// Overbook  Only on request: bytes beyond the limit are promised anyway. Drawing them is an ordinary charge
//           that may be refused, so the limit stays hard.
// Thread    Any; several threads may draw from one reservation.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/budget/budget.hpp"

namespace SAETA_EXPORT saeta {

enum class overbooking { refuse, allow };

class reservation {
public:
  /// @throws error budget_exceeded if `bytes` do not fit and overbooking is refused.
  [[nodiscard]] static reservation make(std::shared_ptr<budget> from, std::uint64_t bytes,
                                        overbooking policy = overbooking::refuse);
  /// Like `make` without overbooking, but waits in line until the bytes are available or `deadline` has
  /// passed, as budget::charge_by does. Returns nullopt if they did not become available.
  [[nodiscard]] static std::optional<reservation> make_by(std::shared_ptr<budget> from, std::uint64_t bytes,
                                                          budget::time_point deadline);
  reservation(reservation&& other) noexcept;
  reservation& operator=(reservation&& other) noexcept;
  ~reservation();

  /// Turns promised bytes into charged ones, firm bytes first. Returns false and changes nothing if more than
  /// the rest is requested, or if the overbooked part has no room.
  [[nodiscard]] bool try_draw(std::uint64_t bytes) noexcept;
  /// Undoes a draw whose allocation failed. The bytes are promised again.
  void put_back(std::uint64_t bytes) noexcept;
  /// Like try_draw, but a failed draw counts as a refusal of the budget. Returns nullopt on success.
  /// Otherwise returns the numbers of the reservation if more than the rest was requested, else those of the
  /// budget that has no room for the overbooked part.
  [[nodiscard]] std::optional<budget_refusal> draw_or_refuse(std::uint64_t bytes);
  /// Returns the rest to the budget; later draws fail.
  void release() noexcept;

  [[nodiscard]] std::uint64_t bytes() const noexcept;                 ///< bytes requested when it was made
  [[nodiscard]] std::uint64_t left() const noexcept;                  ///< not drawn yet, firm and overbooked
  [[nodiscard]] std::uint64_t overbooked() const noexcept;            ///< the part of `left` that is not firm
  [[nodiscard]] const std::shared_ptr<budget>& from() const noexcept; ///< null for a moved-from reservation

private:
  struct state;
  explicit reservation(std::unique_ptr<state> state);
  std::unique_ptr<state> state_;
};

} // namespace saeta
