// The broker: a thread that lets other processes open memory of this process and notices when they are done.
//
// @code
// const auto memory = exported::packed(ctx, ipc::pack(orders));
// const std::shared_ptr<broker> own = broker::own(); // one in a process, made on first use
// own->add(memory);                                  // until `memory` is dropped, here and by its users
// const bool here = own->find(memory->token().key) == memory;
// @endcode
//
// What      A process that opens an export holds a lease: a connection that stays open. The lease ends when
//           the process says so or when the connection closes, for whatever reason. If the memory were freed
//           earlier, its pool would reuse it while the other process still reads it.
// Owner     The process keeps its brokers until it ends. The broker keeps an export while another process has
//           it open or a posted token of it is in transit, and nothing else.
// Who       Any user can connect, and only processes of this user are served. A process that changes its user
//           gets a new broker. Nothing that a peer sends or omits makes the others wait.
// Fork      A child has none of its parent's sockets, and starts a broker of its own.
// Thread    Any. The broker's own thread frees memory whose last user has ended.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/share/descriptor.hpp"
#include "saeta/share/exported.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

/// How long processes wait for each other. For tests.
struct share_limits {
  std::chrono::milliseconds wait{30'000};   ///< for a reply of another process
  std::chrono::milliseconds silent{10'000}; ///< until a connection without a request is closed
  /// Without free descriptors, until a request is answered with that failure.
  std::chrono::milliseconds starvation{10'000};
  std::size_t most_silent = 64;      ///< connections without a request; the oldest is closed for a new one
  std::size_t largest_reply = 65536; ///< bytes, with the code; larger metadata of a table go into a file
  const char* machine_id = "/proc/sys/kernel/random/boot_id"; ///< lives as long as the program
};
[[nodiscard]] const share_limits& current_share_limits() noexcept;
/// Returns the previous ones.
share_limits set_share_limits(const share_limits& limits);

class broker : public std::enable_shared_from_this<broker> {
  struct key {};

public:
  using posted_exports = std::vector<std::pair<std::shared_ptr<exported>, std::size_t>>;

  /// The broker of this process, which starts on first use, and again after the user of the process changed.
  /// @throws error io if the system has no socket, descriptor or thread for it.
  [[nodiscard]] static std::shared_ptr<broker> own();
  /// Null if it has not been started.
  [[nodiscard]] static std::shared_ptr<broker> running();
  /// Called by `own`. One that is dropped ends its thread.
  explicit broker(key own);
  broker(const broker&) = delete;
  broker& operator=(const broker&) = delete;
  ~broker();
  /// A broker beside the one of the process, for tests.
  [[nodiscard]] static std::shared_ptr<broker> make();

  /// Of its socket, in the abstract namespace of Linux.
  [[nodiscard]] const std::string& name() const noexcept;
  /// Lets other processes open the memory as long as somebody keeps it.
  void add(const std::shared_ptr<exported>& memory);
  /// Null if it is not shared any more.
  [[nodiscard]] std::shared_ptr<exported> find(const share_token::id& key) const;

  /// Keeps an export until another process has opened it by a token that is now sent there.
  void post(const std::shared_ptr<exported>& memory);
  /// Notes that a posted token has arrived: the export was opened by it.
  void note_arrival(const std::shared_ptr<exported>& memory);
  /// The exports whose tokens are in transit, with the number of tokens.
  [[nodiscard]] posted_exports posted() const;
  /// Waits until all posted tokens have arrived, at most that long. Returns whether they have.
  bool wait_for_arrivals(std::chrono::milliseconds longest);

  /// Ends the thread and closes all connections. Peers that wait for a reply connect again, to the process
  /// that gets the socket. @return the number of the socket, which stays open as long as the broker lives
  [[nodiscard]] int retire();

  /// Closes the connection and calls `ended` on the broker's thread when the other side has closed it.
  void watch(descriptor connection, std::function<void()> ended);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace saeta
