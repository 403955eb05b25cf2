// The broker: what it answers, and peers that send nonsense, too much or nothing.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/report.hpp"
#include "saeta/share/lease.hpp"
#include "share_test.hpp"
#include "support/child_process.hpp"

#include <sys/resource.h>

namespace saeta::sharing {
namespace {

using std::chrono::milliseconds;
using support::error_of;
using ::testing::HasSubstr;

class share_broker : public ::testing::Test {
protected:
  [[nodiscard]] std::shared_ptr<exported> shared() const {
    ipc::packed_table packed;
    packed.metadata.assign(100, std::byte{7});
    auto made = exported::packed(host_, std::move(packed));
    broker_->add(made);
    return made;
  }
  [[nodiscard]] descriptor connected() const { return connect(broker_->name()); }
  [[nodiscard]] std::uint64_t charged() const { return host_->memory_budget()->statistics().reserved; }
  static std::string granted_reply(const exported& of) { return concat('\0', text_of(of.reply())); }
  /// Sends a request and returns the reply.
  static std::string ask_on(const descriptor& connection, request_kind kind, const share_token::id& key) {
    say(connection.number(), kind, key);
    return awaited_message(connection.number());
  }

  std::shared_ptr<context> host_ = context::create(make_host_backend());
  std::shared_ptr<broker> broker_ = broker::make();
};

TEST_F(share_broker, a_lease_keeps_the_memory_until_its_connection_closes) {
  std::shared_ptr<exported> memory = shared();
  const share_token::id key = memory->token().key;
  descriptor peer = connected();
  EXPECT_EQ(ask_on(peer, request_kind::open, key), granted_reply(*memory));
  memory = nullptr;
  EXPECT_NE(broker_->find(key), nullptr);
  EXPECT_EQ(charged(), 100U);
  peer.close();
  EXPECT_TRUE(eventually([&] { return broker_->find(key) == nullptr; }));
  EXPECT_TRUE(eventually([&] { return charged() == 0; }));
}

TEST_F(share_broker, a_connection_holds_one_lease) {
  const std::shared_ptr<exported> memory = shared();
  const descriptor peer = connected();
  EXPECT_EQ(ask_on(peer, request_kind::open, memory->token().key), granted_reply(*memory));
  EXPECT_EQ(ask_on(peer, request_kind::open, memory->token().key), "") << "it is closed";
}

TEST_F(share_broker, a_connection_serves_the_next_lease_after_the_end_of_one) {
  std::shared_ptr<exported> memory = shared();
  const share_token::id key = memory->token().key;
  const descriptor peer = connected();
  const std::string reply = granted_reply(*memory);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(ask_on(peer, request_kind::open, key), reply);
    say(peer.number(), request_kind::end, {});
  }
  memory = nullptr;
  EXPECT_TRUE(eventually([&] { return broker_->find(key) == nullptr; }));
}

TEST_F(share_broker, refusals_have_a_reason) {
  const struct {
    std::string sent;
    char code;
    const char* text;
  } cases[] = {
      {"nonsense", 3, "does not know this request"},
      {std::string(5000, 'x'), 3, "does not know this request"},
      {text_of(encode(request_kind::end, {std::byte{1}})), 3, "does not know this request"},
      {text_of(encode(request_kind::open, {})), 1, "the buffer is not shared any more"},
      {text_of(encode(request_kind::pool, {})), 1, "the buffer is not shared any more"},
      {text_of(encode(request_kind::post, {})), 1, "the buffer is not shared any more"},
  };
  for (const auto& each : cases) {
    const descriptor peer = connected();
    say(peer.number(), each.sent);
    const std::string reply = awaited_message(peer.number());
    ASSERT_FALSE(reply.empty());
    EXPECT_EQ(reply[0], each.code);
    EXPECT_THAT(reply, HasSubstr(each.text));
    EXPECT_EQ(awaited_message(peer.number()), "") << "it is closed";
  }
}

TEST_F(share_broker, a_pool_that_can_not_be_shared_is_explained) {
  const std::shared_ptr<exported> memory = shared(); // of the host, which has no pool
  const descriptor peer = connected();
  const std::string reply = ask_on(peer, request_kind::pool, memory->token().key);
  EXPECT_EQ(reply.front(), 3);
  EXPECT_THAT(reply, HasSubstr("the pool of the buffer can't be shared: "));
}

TEST_F(share_broker, the_descriptor_of_a_pool_is_sent_and_closed) {
  context_options options;
  options.memory.exportable_pool = true;
  const auto ctx = context::create(sim::device::create({}), options);
  auto memory = exported::bytes(ctx, buffer::allocate(ctx, 4096, ctx->work_stream(), "shared"));
  broker_->add(memory);
  const descriptor peer = connected(); // a pool needs no lease
  // A request that has a reply: what came before it is done then.
  const auto round_trip = [&] {
    EXPECT_EQ(ask_on(peer, request_kind::post, memory->token().key), std::string(1, '\0'));
    broker_->note_arrival(memory);
  };
  round_trip();
  const std::size_t before = open_descriptors();
  {
    const message replied = exchange(peer.number(), request_kind::pool, memory->token().key);
    EXPECT_EQ(granted(replied.bytes).size(), 0U);
    EXPECT_TRUE(replied.file.is_open());
    round_trip();
    EXPECT_EQ(open_descriptors(), before + 1) << "the broker keeps no copy";
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(share_broker, a_posted_token_keeps_the_memory_until_it_has_arrived) {
  std::shared_ptr<exported> memory = shared();
  const share_token::id key = memory->token().key;
  broker_->post(memory);
  const descriptor peer = connected();
  EXPECT_EQ(ask_on(peer, request_kind::post, key), std::string(1, '\0'));
  memory = nullptr;
  ASSERT_EQ(broker_->posted().size(), 1U);
  EXPECT_EQ(broker_->posted().front().second, 2U);
  EXPECT_FALSE(broker_->wait_for_arrivals(milliseconds(5)));
  const descriptor first = connected();
  EXPECT_EQ(ask_on(first, request_kind::take, key).size(), 17U);
  EXPECT_NE(broker_->find(key), nullptr);
  const descriptor second = connected();
  EXPECT_EQ(ask_on(second, request_kind::open, key).size(), 17U) << "`open` does not count";
  static_cast<void>(ask_on(connected(), request_kind::open, {})); // the one before is done now
  ASSERT_EQ(broker_->posted().size(), 1U);
  EXPECT_EQ(broker_->posted().front().second, 1U);
  std::thread third([&] { static_cast<void>(ask(broker_->name(), request_kind::take, key)); });
  EXPECT_TRUE(broker_->wait_for_arrivals(milliseconds(10'000)));
  third.join();
  EXPECT_TRUE(broker_->posted().empty());
  EXPECT_NE(broker_->find(key), nullptr) << "leases keep it";
  close_idle_connections();
}

TEST_F(share_broker, a_token_counts_as_arrived_although_its_peer_has_gone) {
  const std::shared_ptr<exported> memory = shared();
  broker_->post(memory);
  {
    const descriptor peer = connected();
    say(peer.number(), request_kind::take, memory->token().key);
  }
  EXPECT_TRUE(broker_->wait_for_arrivals(milliseconds(10'000)));
}

TEST_F(share_broker, the_oldest_silent_connection_is_closed_for_a_new_one) {
  const scoped_limits limits({.most_silent = 2});
  const std::shared_ptr<exported> memory = shared();
  const descriptor talking = connected();
  EXPECT_EQ(ask_on(talking, request_kind::open, memory->token().key), granted_reply(*memory));
  const descriptor first = connected();
  const descriptor second = connected();
  const descriptor third = connected();
  EXPECT_EQ(awaited_message(first.number()), "");
  EXPECT_EQ(message_at(second.number()), "none");
  EXPECT_EQ(message_at(third.number()), "none");
  EXPECT_EQ(message_at(talking.number()), "none");
}

TEST_F(share_broker, silent_connections_time_out) {
  const scoped_limits limits({.silent = milliseconds(50)});
  const std::shared_ptr<exported> memory = shared();
  const descriptor talking = connected();
  EXPECT_EQ(ask_on(talking, request_kind::open, memory->token().key), granted_reply(*memory));
  const auto start = std::chrono::steady_clock::now();
  const descriptor silent = connected();
  EXPECT_EQ(awaited_message(silent.number()), "");
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(40));
  EXPECT_EQ(message_at(talking.number()), "none");
}

TEST_F(share_broker, a_peer_that_does_not_read_is_dropped_and_the_others_are_served) {
  const std::shared_ptr<exported> memory = shared();
  const descriptor peer = connected();
  for (int i = 0; i < 5000; ++i) { // until the socket has no room for more replies
    const request_message sent = encode(request_kind::post, memory->token().key);
    if (::send(peer.number(), sent.data(), sent.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE) {
      break;
    }
  }
  const descriptor other = connected();
  EXPECT_EQ(ask_on(other, request_kind::open, memory->token().key), granted_reply(*memory));
  EXPECT_TRUE(eventually(
      [&] { return ::send(peer.number(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE; }));
  while (!broker_->posted().empty()) {
    broker_->note_arrival(memory);
  }
}

TEST_F(share_broker, without_descriptors_each_peer_is_told_after_a_while) {
#ifdef SAETA_ADDRESS_SANITIZER
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors to look at an object";
#endif
  const scoped_limits limits({.starvation = milliseconds(30)});
  const std::shared_ptr<exported> memory = shared();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::array<descriptor, 3> peers;
  for (descriptor& each : peers) {
    each = descriptor::opened([] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); });
  }
  const address to(broker_->name());
  std::vector<int> taken;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, std::array{rlimit{256, before.rlim_max}}.data()), 0);
  for (int made = ::dup(0); made >= 0; made = ::dup(0)) {
    taken.push_back(made);
  }
  std::vector<std::string> replies;
  for (const descriptor& each : peers) {
    EXPECT_EQ(::connect(each.number(), reinterpret_cast<const sockaddr*>(to.bytes.data()), to.size), 0);
    replies.push_back(awaited_message(each.number()));
  }
  for (const int each : taken) {
    ::close(each);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const std::string& each : replies) {
    EXPECT_THAT(
        each,
        HasSubstr("\3the process that exported the buffer can't open a connection: Too many open files"));
  }
  const descriptor other = connected();
  EXPECT_EQ(ask_on(other, request_kind::open, memory->token().key), granted_reply(*memory));
}

TEST_F(share_broker, processes_of_another_user_are_refused_on_both_sides) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can become another user";
  }
  const std::shared_ptr<exported> memory = shared();
  support::expect_in_a_child([&] {
    ASSERT_EQ(::setresuid(65534, 65534, 65534), 0);
    const error refused = error_of([&] { static_cast<void>(connected()); });
    EXPECT_EQ(refused.code(), errc::io);
    EXPECT_EQ(refused.error_number(), EACCES);
    EXPECT_EQ(refused.message(), "the buffer was exported by user 0, this process is of user 65534");
    const descriptor peer = descriptor::opened([] { return ::socket(AF_UNIX, SOCK_SEQPACKET, 0); });
    const address to(broker_->name());
    ASSERT_EQ(::connect(peer.number(), reinterpret_cast<const sockaddr*>(to.bytes.data()), to.size), 0);
    EXPECT_EQ(awaited_message(peer.number()), "\2the buffer was exported by user 0, not by user 65534");
  });
}

TEST_F(share_broker, a_retired_one_leaves_its_socket_to_another_process) {
  const std::shared_ptr<exported> memory = shared();
  const descriptor peer = connected();
  EXPECT_EQ(ask_on(peer, request_kind::open, memory->token().key), granted_reply(*memory));
  const int socket = broker_->retire();
  EXPECT_EQ(message_at(peer.number()), "") << "all connections are closed";
  const descriptor next = connected();
  const descriptor there =
      descriptor::opened([&] { return ::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
  EXPECT_TRUE(there.is_open());
}

TEST_F(share_broker, a_closed_connection_that_is_watched_is_reported_once) {
  const listening_socket socket;
  std::atomic<int> ended = 0;
  broker_->watch(connect(socket.name), [&] { ++ended; });
  descriptor there = socket.accepted();
  EXPECT_EQ(ended, 0);
  there.close();
  EXPECT_TRUE(eventually([&] { return ended == 1; }));
}

TEST_F(share_broker, a_failed_connection_is_reported_and_the_others_are_served) {
  static std::atomic<int> reports = 0;
  reports = 0;
  const report_sink before = set_report_sink([](std::string_view where, std::string_view message) noexcept {
    reports += where == "a connection of another process failed" && message.find("no way") != message.npos;
  });
  const std::shared_ptr<exported> memory = shared();
  const listening_socket socket;
  broker_->watch(connect(socket.name), [] { throw std::runtime_error("no way"); });
  socket.accepted().close();
  EXPECT_TRUE(eventually([] { return reports == 1; }));
  const descriptor peer = connected();
  EXPECT_EQ(ask_on(peer, request_kind::open, memory->token().key), granted_reply(*memory));
  set_report_sink(before);
}

TEST_F(share_broker, what_ends_leaves_no_descriptor) {
  const std::size_t before = open_descriptors();
  {
    const std::shared_ptr<broker> made = broker::make();
    EXPECT_EQ(open_descriptors(), before + 4) << "the socket, its events, and one to spare";
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(share_broker, a_start_without_descriptors_fails_and_leaves_none) {
#ifdef SAETA_ADDRESS_SANITIZER
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors to look at an object";
#endif
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::size_t before = open_descriptors();
  const std::size_t needed = 4;
  for (std::size_t left = 0; left < needed; ++left) {
    std::vector<int> taken;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, std::array{rlimit{256, limit.rlim_max}}.data()), 0);
    for (int made = ::dup(0); made >= 0; made = ::dup(0)) {
      taken.push_back(made);
    }
    for (std::size_t i = 0; i < left; ++i) {
      ::close(taken.back());
      taken.pop_back();
    }
    const error refused = error_of([] { static_cast<void>(broker::make()); });
    for (const int each : taken) {
      ::close(each);
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(refused.error_number(), EMFILE);
    EXPECT_EQ(open_descriptors(), before);
  }
}

TEST_F(share_broker, a_child_of_fork_has_one_of_its_own) {
  const std::shared_ptr<broker> own = broker::own();
  EXPECT_EQ(broker::running(), own);
  EXPECT_EQ(broker::own(), own);
  const std::shared_ptr<exported> memory = shared();
  const descriptor peer = connected();
  EXPECT_EQ(ask_on(peer, request_kind::open, memory->token().key), granted_reply(*memory));
  support::expect_in_a_child([&] {
    EXPECT_EQ(broker::running(), nullptr);
    EXPECT_NE(broker::own()->name(), own->name());
  });
  EXPECT_EQ(message_at(peer.number()), "none");
}

TEST_F(share_broker, ended_exports_are_forgotten) {
  std::vector<share_token::id> keys;
  for (int i = 0; i < 200; ++i) {
    keys.push_back(shared()->token().key);
  }
  const std::shared_ptr<exported> kept = shared();
  for (const share_token::id& each : keys) {
    EXPECT_EQ(broker_->find(each), nullptr);
  }
  EXPECT_EQ(broker_->find(kept->token().key), kept);
}

} // namespace
} // namespace saeta::sharing
