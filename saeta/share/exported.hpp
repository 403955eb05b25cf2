// Memory that other processes may open, and the tables and buffers that it has.
//
// @code
// // What saeta::share does: the packed form of a table in memory that other processes can open.
// const std::shared_ptr<exported> memory = exported::packed(ctx, ipc::pack(orders));
// broker::own()->add(memory); // other processes open it by `memory->token()`
// @endcode
//
// Owner     Its memory is kept while anybody here has the object, and while another process has it open
//           (share/broker.hpp). The broker's thread may drop the last owner.
// Order     The bytes are complete: every maker waits for their last writes on the host.
// Thread    Any; it does not change.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/share/descriptor.hpp"
#include "saeta/share/share_token.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

class exported {
  struct key {};

public:
  /// Called by the functions below.
  exported(key own, std::shared_ptr<context> home);
  /// A packed table. On the host it is copied into a sealed file, charged to `home`; on a GPU a body that
  /// other processes can't open is copied into memory that they can.
  /// @throws error io (no memory, descriptor or /proc), budget_exceeded, unsupported, device.
  [[nodiscard]] static std::shared_ptr<exported> packed(const std::shared_ptr<context>& home,
                                                        ipc::packed_table packed);
  /// Device memory where it is. @param bytes  of an exportable pool, or absent. @throws error as `share_bytes`.
  [[nodiscard]] static std::shared_ptr<exported> bytes(const std::shared_ptr<context>& home, buffer bytes);

  /// The token for other processes. The broker that it was added to is named.
  [[nodiscard]] const share_token& token() const noexcept { return token_; }
  [[nodiscard]] const std::shared_ptr<context>& home() const noexcept { return home_; }
  /// What a process gets that opens it: the sizes of body and metadata, and how to open the body.
  [[nodiscard]] std::span<const std::byte> reply() const noexcept { return reply_; }
  /// The file that is sent with the reply; -1 if there is none.
  [[nodiscard]] int file() const noexcept { return file_.number(); }
  /// The packed form on a GPU, or the bytes. Absent on the host.
  [[nodiscard]] const buffer& body() const noexcept { return body_; }
  /// Of a packed table on a GPU.
  [[nodiscard]] std::span<const std::byte> metadata() const noexcept { return metadata_; }

private:
  friend class broker;

  std::shared_ptr<context> home_;
  std::shared_ptr<context> charged_; ///< a reservation of the bytes of the file
  share_token token_;
  std::vector<std::byte> reply_;
  descriptor file_;
  buffer body_;
  std::vector<std::byte> metadata_;
};

/// The 16 bytes that name a device in every process of the machine, asked of the driver once.
[[nodiscard]] share_token::id device_identity(const context& of);

} // namespace saeta
