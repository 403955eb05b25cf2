// The token of a shared table: what another process of the same user on this machine opens it by.
//
// @code
// const shared_table shared = share(orders);                         // keep it until it has been opened
// const std::vector<std::byte> message = shared.token().to_bytes();  // some hundred bytes, by any channel
// const share_token token = share_token::from_bytes(message);        // in the other process
// @endcode
//
// What      It names the process that shares the table and the table, and carries none of its bytes. Its 16
//           bytes `key` are a secret: a process of the same user that has them may open the table.
// Owner     A plain value. It keeps nothing alive.
// Failure   from_bytes: error format naming the part that is wrong.
#pragma once

#include "saeta/base/export.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SAETA_EXPORT saeta {

struct share_token {
  using id = std::array<std::byte, 16>;

  id machine{};               ///< of this machine since its last start
  std::string broker;         ///< name of the socket of the process that shares the table
  id key{};                   ///< of the table
  std::optional<id> device{}; ///< identifies the GPU that has the table; nullopt: it is on the host
  std::uint64_t nbytes = 0;   ///< of the shared memory, metadata included
  /// The memory is kept until a process has opened the table by this token. `multiprocessing` of Python sends
  /// such tokens.
  bool posted = false;

  friend bool operator==(const share_token&, const share_token&) = default;

  [[nodiscard]] std::vector<std::byte> to_bytes() const;
  [[nodiscard]] static share_token from_bytes(std::span<const std::byte> bytes);
};

/// Whether text has the form of a broker's name: "saeta-", the number of its process, "-", and 32 hexadecimal
/// digits.
[[nodiscard]] bool is_broker_name(std::string_view name) noexcept;

/// 16 bytes that are unique to this machine and change with its next start. @throws error io without /proc.
[[nodiscard]] share_token::id machine_id();

} // namespace saeta
