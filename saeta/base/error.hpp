// The one exception type of Saeta.
//
// @code
// try {
//   const buffer scratch = buffer::allocate(ctx, std::size_t{1} << 30, stream, "scratch");
// } catch (const error& failure) {
//   if (failure.refusal() == nullptr) {
//     throw; // not a matter of the budget
//   }
//   std::cerr << failure.refusal()->requested << " bytes do not fit in " << failure.refusal()->remaining;
// }
// @endcode
//
// What      `error` carries a code that callers branch on, a message with the numbers that matter, and the
//           location that raised it. The message is `printable`, because names of columns and files come from
//           others. A refused budget charge also carries its numbers as a `budget_refusal`, and a failed call
//           of the operating system its errno.
// Owner     A value; copies share the refusal.
// Thread    Immutable after construction.
// Python    Each code becomes one class (python/src/core/errors.cpp), derived from the built-in that the
//           protocol or convention expects.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/source_location.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

enum class errc {
  invalid_argument, ///< an argument can't be used; the message names it
  type_mismatch,    ///< a type differs from the one that was requested
  /// valid input of a kind that Saeta does not support; the message names the column and its type
  unsupported,
  out_of_range,       ///< an index, offset or length outside its container
  overflow,           ///< size arithmetic exceeded the range of its type
  budget_exceeded,    ///< a budget refused the bytes; `refusal()` has the numbers
  out_of_memory,      ///< the budget accepted the bytes, but the device or the system has no memory
  device,             ///< a driver or runtime call failed, or the device does not exist
  device_lost,        ///< the device's context is broken for good: queued work never finishes
  format,             ///< bytes are not in the format that they claim (a file, a C struct, a capsule)
  io,                 ///< the operating system refused a file operation
  exchange,           ///< an exchange protocol can't carry this value (BufferError in Python)
  closed,             ///< the object was closed or already consumed
  busy,               ///< the caller already holds what it asks for
  download_forbidden, ///< strict mode: data would be copied from the device to the host
  column_name,        ///< no column, or more than one, has the name (KeyError in Python)
};

/// The name of the enumerator, for messages and logs.
[[nodiscard]] std::string_view name_of(errc code) noexcept;

/// True when a budget, the device or the system has too little memory. A request for fewer bytes may succeed.
[[nodiscard]] constexpr bool is_lack_of_room(errc code) noexcept {
  return code == errc::budget_exceeded || code == errc::out_of_memory;
}

/// Unsigned 128-bit integer. It holds the sum `current + reserved + requested` of 64-bit numbers exactly.
__extension__ using uint128 = unsigned __int128;

/// The numbers of a refused charge in bytes, taken when the charge was refused: `required > limit`.
struct budget_refusal {
  using bytes_by_tag = std::vector<std::pair<std::string, std::uint64_t>>; ///< largest first

  std::string layer;            ///< which budget refused ("cuda:0")
  std::size_t levels_above = 0; ///< 0: the budget that was charged refused; 1: its parent did, and so on
  std::uint64_t requested = 0;  ///< bytes of the refused charge
  std::uint64_t current = 0;    ///< bytes charged
  std::uint64_t reserved = 0;   ///< promised to reservations, or kept for earlier requests that wait in line
  std::uint64_t kept = 0;       ///< the part of `reserved` that is kept for requests that wait in line
  uint128 required = 0;         ///< current + reserved + requested, exact
  std::uint64_t limit = 0;
  std::uint64_t remaining = 0; ///< limit - current - reserved
  std::uint64_t peak = 0;
  bytes_by_tag owners; ///< live bytes of the budget that was charged; read a moment later
  bytes_by_tag others; ///< if an ancestor refused: live bytes of its other users; read with `owners`
};

class error final : public std::exception {
public:
  error(errc code, std::string message, source_location where = source_location::current());
  /// A failed call of the operating system, with its errno (saeta/base/os_error.hpp).
  error(errc code, std::string message, int error_number, source_location where = source_location::current());
  /// A budget refusal. The message is made from its numbers.
  explicit error(budget_refusal refusal, source_location where = source_location::current());

  [[nodiscard]] errc code() const noexcept { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  [[nodiscard]] const source_location& where() const noexcept { return where_; }
  /// The errno of the call of the operating system that failed; 0 if there is none.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }
  /// Null unless `code()` is `budget_exceeded`.
  [[nodiscard]] const budget_refusal* refusal() const noexcept { return refusal_.get(); }

private:
  errc code_;
  int error_number_ = 0;
  std::string message_;
  source_location where_;
  std::shared_ptr<const budget_refusal> refusal_;
};

} // namespace saeta
