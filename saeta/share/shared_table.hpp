// Tables in several processes: one process shares a table, others of the same user open it without a copy.
//
// @code
// const shared_table shared = share(orders);                   // on the host one copy, then none
// const std::vector<std::byte> message = shared.token().to_bytes();    // send it in any way
// // In another process of the same user on this machine:
// const table found = open_shared(ctx, share_token::from_bytes(message)); // a view of the same memory
// @endcode
//
// What      On the host the packed form of a table (ipc/packed.hpp) is copied into a file in memory that
//           nobody can change. On a GPU its body is shared where it is, if the context has an exportable
//           pool, otherwise a copy of it on the GPU is. Whoever opens it gets read-only columns.
// Owner     The memory is kept as long as the shared_table here and as the tables that were opened from it.
//           A process that ends, or is killed, keeps nothing. What is open stays readable when the process
//           that shared it ends. Charged to the context of the table; to a process that opened it, it is
//           external memory.
// Order     `share` waits on the host for the last writes. An opened table is ready on every stream.
// Fork      A child can open the tables of its parent like any other process.
// Thread    Any. The first call of a process starts its broker (share/broker.hpp).
// Failure   closed (it is not shared any more, or its process has ended), io (the errno is EACCES for a process
//           of another user; no descriptor or address space is left; there is no /proc), exchange (the token
//           is of another machine, or its process does not reply), format (the memory is not a packed table),
//           invalid_argument (the table is on another device than the context), budget_exceeded, device.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/options.hpp"
#include "saeta/share/exported.hpp"
#include "saeta/share/share_token.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

/// A table that other processes can open while the object lives, and afterwards while one has it open.
class shared_table {
public:
  explicit shared_table(std::shared_ptr<exported> memory) noexcept : memory_(std::move(memory)) {}

  /// @throws error closed if it was moved from.
  [[nodiscard]] const share_token& token() const;
  [[nodiscard]] const std::shared_ptr<exported>& memory() const noexcept { return memory_; }

private:
  std::shared_ptr<exported> memory_;
};

/// Shares a table with other processes of the same user on this machine.
[[nodiscard]] shared_table share(const table& source);
/// The same for a packed table, in a context of the device of its body.
[[nodiscard]] shared_table share(const std::shared_ptr<context>& ctx, ipc::packed_table packed);

/// Opens a shared table.
/// @param ctx    of the device that has the memory: the host, or the GPU of the token
/// @param check  as for ipc::unpack
[[nodiscard]] table open_shared(const std::shared_ptr<context>& ctx, const share_token& token,
                                validation check = validation::full);

/// A shared table in its packed form, for programs that check or unpack it later, or open it where it lies.
///
/// @code
/// const share_token token = share(orders).token();
/// const opened_form found = opened_form::open(token, [&](const share_token&, bool) { return ctx; });
/// const table rows = ipc::unpack(found.home, found.metadata, found.body, validation::structure);
/// @endcode
struct opened_form {
  /// The context for the memory. `on_host`: in a file, also of a table on a GPU whose process has ended.
  using choose_context = std::function<std::shared_ptr<context>(const share_token& token, bool on_host)>;
  /// @throws error as open_shared, and what `choose` throws.
  [[nodiscard]] static opened_form open(const share_token& token, const choose_context& choose);
  /// Whether the process that shares it has ended, so that no other can open it. Called while the body lives.
  [[nodiscard]] bool producer_ended() const;

  std::shared_ptr<context> home;
  std::vector<std::byte> metadata;
  buffer body;                       ///< keeps the lease; absent if the table has no bytes
  std::shared_ptr<exported> here{};  ///< set if this process shares the table
  std::weak_ptr<const void> lease{}; ///< of a table of another process, as long as the body lives
};

/// Tells the process that shares a table that its token is sent on: it keeps the memory until the table was
/// opened by a token that is `posted`. @throws error as open_shared.
void post_shared(const share_token& token);
/// Tells it that a posted token has arrived, without opening the table again. Does nothing if it has ended.
void note_shared_arrival(const share_token& token);

/// Opens bytes of a GPU that `exported::bytes` shares in another process, as writable external memory; in the
/// process that shares them, returns the memory itself. @throws error as open_shared; exchange if they are not
/// `token.nbytes`.
[[nodiscard]] buffer open_shared_bytes(const std::shared_ptr<context>& ctx, const share_token& token,
                                       std::string tag = "share");
/// The brokers whose pools of GPU memory are imported for a device, in order to open their tables and bytes.
[[nodiscard]] std::vector<std::string> imported_brokers(const context& ctx);
/// Closes the connections to other processes that are kept for the next open.
void close_idle_connections();

} // namespace saeta
