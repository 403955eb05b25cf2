// Sockets of tests that stand in for other processes.
#pragma once

#include "saeta/base/text.hpp"
#include "saeta/share/broker.hpp"
#include "saeta/share/wire.hpp"
#include "support/error_of.hpp"
#include "support/eventually.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace saeta::sharing {

/// Sets limits for a test.
class scoped_limits {
public:
  explicit scoped_limits(const share_limits& limits) : before_(set_share_limits(limits)) {}
  scoped_limits(const scoped_limits&) = delete;
  scoped_limits& operator=(const scoped_limits&) = delete;
  ~scoped_limits() { set_share_limits(before_); }

private:
  share_limits before_;
};

inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

using support::eventually;

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The next message: "" if the connection has ended, "none" if there is none.
inline std::string message_at(int connection) {
  std::array<char, 4096> content{};
  const auto bytes = ::recv(connection, content.data(), content.size(), MSG_DONTWAIT);
  return bytes < 0 ? (errno == EAGAIN ? "none" : "")
                   : std::string(content.data(), static_cast<std::size_t>(bytes));
}

/// The same, after a wait of at most ten seconds.
inline std::string awaited_message(int connection) {
  pollfd waited{connection, POLLIN, 0};
  return ::poll(&waited, 1, 10'000) == 1 ? message_at(connection) : "none";
}

inline void say(int connection, std::string_view text) {
  ASSERT_EQ(::send(connection, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}
inline void say(int connection, request_kind kind, const share_token::id& key) {
  const request_message sent = encode(kind, key);
  say(connection, text_of(sent));
}

/// The socket of a process that never replies by itself.
class listening_socket {
public:
  explicit listening_socket(int queue = 64)
      : name(concat("saeta-1-", std::string(24, 'a'), digits())),
        socket_(descriptor::opened([] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); })) {
    const address at(name);
    EXPECT_EQ(::bind(socket_.number(), reinterpret_cast<const sockaddr*>(at.bytes.data()), at.size), 0);
    EXPECT_EQ(::listen(socket_.number(), queue), 0);
  }

  /// The next connection's end of this process.
  [[nodiscard]] descriptor accepted() const {
    descriptor made =
        descriptor::opened([this] { return ::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC); });
    EXPECT_TRUE(made.is_open());
    return made;
  }
  void close() { socket_.close(); }
  [[nodiscard]] int number() const { return socket_.number(); }

  const std::string name;

private:
  static std::string digits() {
    static int count = 0;
    std::string made = std::to_string(::getpid() * 1000LL + ++count);
    return std::string(8 - std::min<std::size_t>(8, made.size()), '0') +
           made.substr(made.size() > 8 ? made.size() - 8 : 0);
  }
  descriptor socket_;
};

} // namespace saeta::sharing
