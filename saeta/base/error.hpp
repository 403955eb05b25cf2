// The one exception type of Saeta.
//
// What      `error` carries a code that callers branch on, a message with the numbers that matter and the place that
//           raised it. The message is `printable`: names of columns and files are other people's. A refused budget charge carries its numbers as a `budget_refusal` too.
// Owner     A value; copies share the refusal.
// Thread    Immutable after construction.
// Python    Each code becomes one class (python/src/errors.cpp): the class that the protocol or convention expects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saeta {

enum class errc {
  invalid_argument, ///< a value the caller passed can't be used; the message names it
  type_mismatch,    ///< a type differs from the one that was asked for
  unsupported,      ///< valid input of a kind that Saeta does not carry (yet); names the column and its type
  out_of_range,     ///< an index, offset or length outside its container
  overflow,         ///< size arithmetic left its type
  budget_exceeded,  ///< refused by a budget; `refusal()` has the numbers
  out_of_memory,    ///< the budget agreed but the device or the system has no memory
  device,           ///< a driver or runtime call failed, or no such device
  device_lost, ///< the device's context is broken for good: nothing that was queued on it finishes any more
  format,      ///< bytes that are not what they claim to be (a file, a C struct, a capsule)
  io,          ///< the operating system refused a file operation
  exchange,    ///< an exchange protocol can't carry this value (BufferError in Python)
  closed,      ///< the object was closed or already consumed
  busy,        ///< the caller already holds what it asks for
  download_forbidden, ///< strict mode: data would be copied from the device to the host
  column_name,        ///< a name that no column has, or more than one (KeyError in Python)
};

/// Name of a code as in the enumeration, for messages and logs.
std::string_view name_of(errc code) noexcept;

/// Whether memory was refused for lack of room, by a budget or by whoever has it: with less it may go on.
[[nodiscard]] constexpr bool is_lack_of_room(errc code) noexcept {
  return code == errc::budget_exceeded || code == errc::out_of_memory;
}

/// Unsigned 128-bit integer: `current + reserved + requested` of 64-bit numbers is exact in it.
__extension__ using uint128 = unsigned __int128;

/// The numbers of a refused charge, all in bytes, of the moment at which the charge was decided: `required > limit`.
struct budget_refusal {
  using bytes_by_tag = std::vector<std::pair<std::string, std::uint64_t>>; ///< largest first

  std::string layer;            ///< which budget refused ("cuda:0")
  std::size_t levels_above = 0; ///< 0: the budget that was asked refused; 1: its parent did, and so on
  std::uint64_t requested = 0;  ///< what was asked for
  std::uint64_t current = 0;    ///< charged at that moment
  std::uint64_t reserved = 0; ///< promised to reservations, and kept for requests that came earlier and wait
  std::uint64_t kept = 0;     ///< the part of `reserved` that is kept for requests that wait
  uint128 required = 0;       ///< current + reserved + requested, exact
  std::uint64_t limit = 0;
  std::uint64_t remaining = 0; ///< limit - current - reserved
  std::uint64_t peak = 0;
  bytes_by_tag owners; ///< live bytes of the budget that was asked; read a moment later
  bytes_by_tag
      others; ///< live bytes of others in the budget that refused, where that is an ancestor; read with `owners`
};

class error final : public std::exception {
public:
  error(errc code, std::string message, std::source_location where = std::source_location::current());
  /// A budget refusal; the message is made from its numbers.
  explicit error(budget_refusal refusal, std::source_location where = std::source_location::current());

  [[nodiscard]] errc code() const noexcept { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }
  /// Null unless `code()` is `budget_exceeded`.
  [[nodiscard]] const budget_refusal* refusal() const noexcept { return refusal_.get(); }

private:
  errc code_;
  std::string message_;
  std::source_location where_;
  std::shared_ptr<const budget_refusal> refusal_;
};

} // namespace saeta
