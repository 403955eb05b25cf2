#include "saeta/share/wire.hpp"

#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/os_error.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <forward_list>
#include <mutex>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace saeta {
namespace {

constinit const share_limits defaults;
std::atomic<const share_limits*> limits_now{&defaults};

} // namespace

const share_limits& current_share_limits() noexcept { return *limits_now.load(std::memory_order_acquire); }

share_limits set_share_limits(const share_limits& limits) {
  static std::mutex alone;
  static auto& all = *new std::forward_list<share_limits>; // kept, because other threads may read them
  const std::lock_guard lock(alone);
  all.push_front(limits);
  return *limits_now.exchange(&all.front(), std::memory_order_acq_rel);
}

namespace sharing {
namespace {

constexpr std::string_view magic = "SAETAIPC";
constexpr std::uint16_t version = 1;

error silence() {
  return {errc::exchange,
          concat("the process that exported the buffer has not replied for ",
                 static_cast<double>(current_share_limits().wait.count()) / 1000.0, " seconds")};
}

bool would_block(int number) noexcept { return number == EAGAIN || number == EWOULDBLOCK; }
bool is_connection_error(int number) noexcept {
  return number == EPIPE || number == ECONNRESET || number == ECONNABORTED || number == ECONNREFUSED ||
         number == ESHUTDOWN;
}

void limit_waits(int socket) {
  const auto wait = current_share_limits().wait.count();
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(wait / 1000);
  limit.tv_usec = static_cast<suseconds_t>(wait % 1000 * 1000);
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) {
    throw system_error(errno);
  }
}

/// Calls the system again after signals whose handlers did not raise.
template <class Call>
auto call_system(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    check_interrupt();
    result = call();
  }
  return result;
}

/// Waits until a message has arrived, or the connection has ended.
void wait_for_message(int connection) {
  const auto deadline = std::chrono::steady_clock::now() + current_share_limits().wait;
  pollfd waited{connection, POLLIN, 0};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      throw silence();
    }
    const auto part = has_interrupt_hook() ? std::min(left, wait_interval()) : left;
    const int ready = ::poll(&waited, 1, static_cast<int>(part.count()));
    if (ready > 0) {
      return;
    }
    if (ready < 0 && errno != EINTR) {
      throw system_error(errno);
    }
    check_interrupt();
  }
}

/// Receives a message that has arrived. A negative result is the errno.
ssize_t receive_now(int connection, std::span<std::byte> into, descriptor& file) {
  iovec content{into.data(), into.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_LEN(sizeof(int))> beside;
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  header.msg_control = beside.data();
  header.msg_controllen = beside.size();
  ssize_t bytes = 0;
  int failure = 0;
  file = descriptor::opened([&] {
    bytes = ::recvmsg(connection, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    failure = errno;
    int number = -1;
    if (bytes >= 0) {
      for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) {
          std::memcpy(&number, CMSG_DATA(each), sizeof number);
        }
      }
    }
    return number;
  });
  if (bytes >= 0 && !file.is_open() && (header.msg_flags & MSG_CTRUNC) != 0) {
    return -EMFILE; // the process had no free descriptor for the one in the message
  }
  return bytes < 0 ? -failure : bytes;
}

message receive(int connection) {
  std::array<std::byte, largest_reply> content; // NOLINT: not initialised, because it is large
  // If the other process has closed the connection without reading everything, the system reports an error
  // first. The next call returns the message that was sent before.
  for (int attempts = 0; attempts < 2;) {
    wait_for_message(connection);
    message found;
    const ssize_t bytes = receive_now(connection, content, found.file);
    if (bytes >= 0) {
      found.bytes.assign(content.begin(), content.begin() + bytes);
      return found;
    }
    const int failure = static_cast<int>(-bytes);
    if (is_connection_error(failure)) {
      ++attempts;
    } else if (failure != EINTR && !would_block(failure)) {
      throw system_error(failure);
    }
  }
  return {};
}

} // namespace

error system_error(int number) {
  return {errc::io, concat(std::generic_category().message(number), " (errno ", number, ")"), number};
}

request_message encode(request_kind kind, const share_token::id& key) {
  request_message made;
  std::byte* at = made.data();
  std::memcpy(at, magic.data(), magic.size());
  std::memcpy(at += magic.size(), &version, sizeof version);
  *(at += sizeof version) = static_cast<std::byte>(kind);
  std::memcpy(at + 1, key.data(), key.size());
  return made;
}

std::optional<request> decode(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != request_bytes) {
    return std::nullopt;
  }
  request found{};
  std::memcpy(&found.kind, bytes.data() + magic.size() + sizeof version, 1);
  std::memcpy(found.key.data(), bytes.data() + request_bytes - found.key.size(), found.key.size());
  const bool has_reply = found.kind == request_kind::pool || found.kind == request_kind::open ||
                         found.kind == request_kind::take || found.kind == request_kind::post;
  return has_reply && std::ranges::equal(encode(found.kind, found.key), bytes) ? std::optional(found)
                                                                               : std::nullopt;
}

bool is_end_of_lease(std::span<const std::byte> bytes) noexcept {
  return std::ranges::equal(encode(request_kind::end, {}), bytes);
}

address::address(std::string_view name) {
  sockaddr_un made{};
  made.sun_family = AF_UNIX;
  if (name.size() >= sizeof made.sun_path) {
    throw system_error(ENAMETOOLONG);
  }
  std::memcpy(made.sun_path + 1, name.data(), name.size()); // NOLINT: the first byte stays 0
  static_assert(sizeof made <= sizeof bytes);
  std::memcpy(bytes.data(), &made, sizeof made);
  size = static_cast<std::uint32_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

descriptor connect(std::string_view broker) {
  descriptor made = descriptor::opened([] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); });
  if (!made.is_open()) {
    throw system_error(errno);
  }
  limit_waits(made.number());
  const address to(broker);
  const int result = call_system(
      [&] { return ::connect(made.number(), reinterpret_cast<const sockaddr*>(to.bytes.data()), to.size); });
  if (result != 0) {
    const int failure = errno;
    if (would_block(failure)) { // the queue of the socket is full
      throw silence();
    }
    if (failure == ECONNREFUSED) {
      throw error(errc::closed,
                  "the process that exported the buffer has ended, or it is in another container");
    }
    throw system_error(failure);
  }
  const std::optional<uid_t> user = user_of(made.number());
  if (user != ::geteuid()) {
    throw error(errc::io,
                concat("the buffer was exported by user ", user.value_or(0), ", this process is of user ",
                       ::geteuid()),
                EACCES);
  }
  return made;
}

message exchange(int connection, request_kind kind, const share_token::id& key) {
  const request_message sent = encode(kind, key);
  const auto result = call_system([&] { return ::send(connection, sent.data(), sent.size(), MSG_NOSIGNAL); });
  if (result < 0) {
    const int failure = errno;
    if (would_block(failure)) {
      throw silence();
    }
    if (!is_connection_error(failure)) { // if it has refused already, its reply can still be read
      throw system_error(failure);
    }
  }
  return receive(connection);
}

std::vector<std::byte> granted(std::span<const std::byte> reply) {
  if (reply.empty()) {
    throw error(errc::closed, "the process that exported the buffer ended before it replied");
  }
  const std::span<const std::byte> content = reply.subspan(1);
  if (reply.front() == std::byte{0}) {
    return {content.begin(), content.end()};
  }
  std::string text(reinterpret_cast<const char*>(content.data()), content.size());
  switch (static_cast<reply_code>(reply.front())) {
  case reply_code::gone:
    throw error(errc::closed, std::move(text));
  case reply_code::forbidden:
    throw error(errc::io, std::move(text), EACCES);
  default:
    throw error(errc::exchange, std::move(text));
  }
}

bool send_now(int connection, reply_code code, std::span<const std::byte> content, int file) noexcept {
  std::array<iovec, 2> parts{iovec{&code, 1}, iovec{const_cast<std::byte*>(content.data()), content.size()}};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> beside{};
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  if (file >= 0) {
    header.msg_control = beside.data();
    header.msg_controllen = CMSG_LEN(sizeof file);
    cmsghdr* const right = CMSG_FIRSTHDR(&header);
    right->cmsg_level = SOL_SOCKET;
    right->cmsg_type = SCM_RIGHTS;
    right->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(right), &file, sizeof file);
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(connection, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

std::optional<uid_t> user_of(int connection) noexcept {
  ucred found{};
  socklen_t bytes = sizeof found;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &found, &bytes) != 0) {
    return std::nullopt;
  }
  return found.uid;
}

bool has_ended(int connection) noexcept {
  char byte = 0;
  const auto found = ::recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return found == 0 || (found < 0 && !would_block(errno) && errno != EINTR);
}

} // namespace sharing
} // namespace saeta
