// The messages between processes about shared memory, and the connections that carry them.
//
// A request has a magic, a version, its kind and the key of an export. The first byte of a reply says whether
// it was granted; then follow the bytes of the export, or the reason. Numbers are little-endian.
#pragma once

#include "saeta/share/broker.hpp"
#include "saeta/share/descriptor.hpp"
#include "saeta/share/share_token.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace saeta::sharing {

enum class request_kind : std::uint8_t {
  pool = 1, ///< asks for the memory pool of an export
  open = 2, ///< begins a lease of an export
  take = 3, ///< like `open`, by a token that was posted
  end = 4,  ///< ends the lease of the connection; has no reply
  post = 5, ///< keeps an export until `take` opens it, for a token that is sent on to a third process
};
enum class reply_code : std::uint8_t { done, gone, forbidden, failed };

inline constexpr std::size_t request_bytes = 27;
using request_message = std::array<std::byte, request_bytes>;
/// Bytes of a reply. A socket's buffer holds messages of up to three times that size.
inline constexpr std::size_t largest_reply = 65536;

struct request {
  request_kind kind;
  share_token::id key;
};

[[nodiscard]] request_message encode(request_kind kind, const share_token::id& key);
/// nullopt if the bytes are not a request that has a reply.
[[nodiscard]] std::optional<request> decode(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] bool is_end_of_lease(std::span<const std::byte> bytes) noexcept;

struct message {
  std::vector<std::byte> bytes; ///< empty at the end of the connection
  descriptor file;              ///< at most one is received; the system closes any others
};

/// Connects to the socket of another process, which must belong to the same user. The user is checked because
/// any user can take the name of the socket after the process has ended.
/// @throws error closed (the process has ended), exchange (it does not reply), io (its number is EACCES if
/// the process is of another user).
[[nodiscard]] descriptor connect(std::string_view broker);
/// Sends a request and receives its reply, empty if the process ended before it replied.
/// @throws error exchange (it does not reply), io, and what the interrupt hook throws.
[[nodiscard]] message exchange(int connection, request_kind kind, const share_token::id& key);
/// Returns the bytes of a reply that was granted. @throws error closed, exchange, io (as `connect`).
[[nodiscard]] std::vector<std::byte> granted(std::span<const std::byte> reply);

/// Sends one message without waiting, with a descriptor if `file` is not negative. Returns false if the other
/// process is gone, or does not read.
[[nodiscard]] bool send_now(int connection, reply_code code, std::span<const std::byte> content,
                            int file = -1) noexcept;
/// The user of the process at the other end; nullopt if the system does not say.
[[nodiscard]] std::optional<uid_t> user_of(int connection) noexcept;
/// Whether the process at the other end has closed the connection.
[[nodiscard]] bool has_ended(int connection) noexcept;

/// Returns an error io with the text of the system for an errno, without what was tried.
[[nodiscard]] error system_error(int number);

/// The address of a socket in the abstract namespace of Linux.
struct address {
  explicit address(std::string_view name);
  alignas(8) std::array<std::byte, 128> bytes{};
  std::uint32_t size = 0;
};

} // namespace saeta::sharing
