// Leases, and the connections that are kept for the next ones.
#include "saeta/share/lease.hpp"
#include "share_test.hpp"
#include "support/child_process.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace saeta::sharing {
namespace {

using support::error_of;

constexpr share_token::id lease_key{std::byte{7}};

/// Stands in for an exporter: replies to each request with `answer`, on a thread of its own. The ends of the
/// connections stay open, for tests to look at.
class exporter {
public:
  explicit exporter(std::function<std::string(std::size_t)> answer)
      : answer_(std::move(answer)), thread_([this] { serve(); }) {}
  exporter(const exporter&) = delete;
  exporter& operator=(const exporter&) = delete;
  ~exporter() {
    stop_ = true;
    thread_.join();
    close_idle_connections();
  }

  [[nodiscard]] const std::string& name() const { return socket_.name; }
  [[nodiscard]] std::size_t connections() {
    const std::lock_guard lock(mutex_);
    return ends_.size();
  }
  /// How many leases have ended with a message.
  [[nodiscard]] std::size_t ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  /// How many connections the other side has closed.
  [[nodiscard]] std::size_t closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

private:
  void serve() {
    while (!stop_) {
      std::vector<pollfd> waited{{socket_.number(), POLLIN, 0}};
      for (const descriptor& each : ends_) {
        waited.push_back({each.number(), POLLIN, 0});
      }
      ::poll(waited.data(), waited.size(), 5);
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 1; i < waited.size(); ++i) {
        if (waited[i].revents != 0 && ends_[i - 1].is_open()) {
          take(ends_[i - 1]);
        }
      }
      if (waited.front().revents != 0) {
        ends_.push_back(socket_.accepted());
      }
    }
  }
  void take(descriptor& end) {
    const std::string said = message_at(end.number());
    if (said.empty()) {
      ++closed_;
      end.close();
    } else if (is_end_of_lease(std::as_bytes(std::span(said)))) {
      ++ended_;
    } else {
      const std::string reply = answer_(asked_++);
      if (reply.empty()) {
        end.close(); // without an answer
      } else {
        say(end.number(), reply);
      }
    }
  }

  std::function<std::string(std::size_t)> answer_;
  listening_socket socket_;
  std::mutex mutex_;
  std::vector<descriptor> ends_;
  std::size_t asked_ = 0;
  std::size_t ended_ = 0;
  std::size_t closed_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

std::string granted_text(std::size_t number) { return concat('\0', "reply ", number); }

TEST(share_lease, connections_are_kept_for_the_next_lease) {
  exporter other(granted_text);
  for (std::size_t turn = 0; turn < 3; ++turn) {
    const leased found = ask(other.name(), request_kind::open, lease_key);
    EXPECT_EQ(text_of(found.reply), concat("reply ", turn));
  }
  EXPECT_TRUE(eventually([&] { return other.ended() == 3; }));
  EXPECT_EQ(other.connections(), 1U);
  exporter another(granted_text);
  const leased apart = ask(another.name(), request_kind::open, lease_key);
  EXPECT_EQ(another.connections(), 1U) << "the idle connection is of another broker";
  const leased first = ask(other.name(), request_kind::open, lease_key);
  const leased second = ask(other.name(), request_kind::open, lease_key);
  EXPECT_EQ(other.connections(), 2U) << "each lease needs a connection";
}

TEST(share_lease, the_number_of_idle_connections_is_limited) {
  exporter other(granted_text);
  std::vector<leased> held;
  for (int i = 0; i < 20; ++i) {
    held.push_back(ask(other.name(), request_kind::open, lease_key));
  }
  held.clear();
  EXPECT_TRUE(eventually([&] { return other.closed() == 12; }));
  EXPECT_EQ(other.ended(), 20U);
}

TEST(share_lease, a_closed_idle_connection_is_replaced) {
  exporter other(
      [](std::size_t number) { return number == 1 ? std::string("\1ended") : granted_text(number); });
  static_cast<void>(ask(other.name(), request_kind::open, lease_key));
  EXPECT_EQ(text_of(ask(other.name(), request_kind::open, lease_key).reply), "reply 2");
  EXPECT_EQ(other.connections(), 2U);
  EXPECT_TRUE(eventually([&] { return other.closed() == 1; })) << "the old one is closed";
}

TEST(share_lease, a_request_is_repeated_because_an_ended_exporter_may_have_handed_over) {
  exporter other([](std::size_t number) { return number == 0 ? std::string() : granted_text(number); });
  EXPECT_EQ(text_of(ask(other.name(), request_kind::open, lease_key).reply), "reply 1");
  EXPECT_EQ(other.connections(), 2U);
}

TEST(share_lease, a_request_is_repeated_once) {
  exporter other([](std::size_t) { return std::string(); });
  EXPECT_EQ(error_of([&] { static_cast<void>(ask(other.name(), request_kind::open, lease_key)); }).code(),
            errc::closed);
  EXPECT_EQ(other.connections(), 2U);
}

TEST(share_lease, the_connection_of_an_ended_exporter_is_not_kept) {
  std::optional<exporter> other(std::in_place, granted_text);
  const std::string name = other->name();
  std::optional<leased> found = ask(name, request_kind::open, lease_key);
  EXPECT_FALSE(found->held->ended());
  other.reset();
  EXPECT_TRUE(found->held->ended());
  const std::size_t before = open_descriptors();
  found.reset();
  EXPECT_EQ(open_descriptors(), before - 1);
}

TEST(share_lease, a_child_of_fork_has_no_lease_of_its_parent) {
  exporter other(granted_text);
  static_cast<void>(ask(other.name(), request_kind::open, lease_key)); // leaves an idle connection
  std::optional<leased> held = ask(other.name(), request_kind::open, lease_key);
  const std::size_t ended = other.ended();
  support::expect_in_a_child([&] { held.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(other.ended(), ended);
  EXPECT_FALSE(held->held->ended());
}

} // namespace
} // namespace saeta::sharing
