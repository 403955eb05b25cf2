// Ordering between streams, and release after the last use. A gate blocks one stream, and the others must
// wait.
#include "conformance/harness/context_test.hpp"
#include "conformance/harness/graph_capture.hpp"
#include "conformance/harness/pinned_bytes.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/export_hold.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace saeta::conformance {
namespace {

constexpr std::size_t ordered_bytes = 1 << 20;

class ordering : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    // Streams and memory are created in advance, because that may wait for the device and so hang behind a
    // gate.
    first_.emplace(ctx()->borrow_stream());
    second_.emplace(ctx()->borrow_stream());
    third_.emplace(ctx()->borrow_stream());
  }
  [[nodiscard]] stream_ref first() const { return first_->ref(); }
  [[nodiscard]] stream_ref second() const { return second_->ref(); }
  [[nodiscard]] stream_ref third() const { return third_->ref(); }
  [[nodiscard]] std::uint8_t* landing() const { return landing_.data(); }
  [[nodiscard]] bool landed(std::uint8_t value) const { return landing_.all_are(value); }
  /// Closes a gate on `stream`; null on a backend that runs inline.
  [[nodiscard]] std::unique_ptr<gate> hold(stream_ref stream) const {
    return close_gate(stream.native_handle());
  }
  static void open(const std::unique_ptr<gate>& which) {
    if (which) {
      which->open();
    }
  }
  [[nodiscard]] buffer filled(std::uint8_t value) const {
    buffer made = make(ordered_bytes);
    fill(made, value, ctx()->work_stream());
    ctx()->synchronize(ctx()->work_stream());
    return made;
  }
  /// Allocates and fills buffers on the stream until one of them reuses this address.
  [[nodiscard]] std::vector<buffer> fill_until_reused(std::uintptr_t address, std::uint8_t value,
                                                      stream_ref on) const {
    std::vector<buffer> made;
    do {
      made.push_back(buffer::allocate(ctx(), ordered_bytes, on, "next"));
      fill(made.back(), value, on);
    } while (made.back().address() != address && made.size() < 32);
    EXPECT_EQ(made.back().address(), address) << "never given out again, so nothing is shown";
    return made;
  }

  /// Fills the buffer like a consumer, without a use token.
  void fill_unannounced(const buffer& of, std::uint8_t value, const stream& foreign) const {
    device().fill(reinterpret_cast<void*>(of.address()), value, ordered_bytes, foreign.ref().native_handle());
  }
  /// Hands the buffer over to `second` while `writer`'s fill with `value` is blocked. The consumer must see
  /// `value`.
  void expect_handover_in_order(const buffer& b, stream_ref writer, const std::unique_ptr<gate>& held,
                                std::uint8_t value) const {
    order_handover(std::array{b}, second());
    device().copy(landing(), reinterpret_cast<const void*>(b.address()), ordered_bytes, to_host(),
                  second().native_handle());
    if (held) {
      EXPECT_FALSE(second().idle()) << "handed over before the write";
    }
    open(held);
    ctx()->synchronize(second());
    EXPECT_TRUE(landed(value));
    EXPECT_TRUE(writer.idle());
  }
  /// Checks a hand-over to the host in the same way.
  void expect_handover_to_host_in_order(const buffer& b, stream_ref writer,
                                        const std::unique_ptr<gate>& held) const {
    open_while_the_host_waits(held, [&] { synchronize_handover(std::array{b}); });
    EXPECT_TRUE(writer.idle()) << "handed over before the write";
    open(held); // still closed after a failure
  }
  /// Checks one of the two kinds of hand-over. Afterwards the writer has finished.
  void expect_handover_in_order(const buffer& b, const stream& writer, const std::unique_ptr<gate>& held,
                                std::uint8_t value, bool for_host) const {
    if (for_host) {
      expect_handover_to_host_in_order(b, writer.ref(), held);
    } else {
      expect_handover_in_order(b, writer.ref(), held, value);
    }
    ctx()->synchronize(writer.ref());
  }

private:
  std::optional<stream_lease> first_;
  std::optional<stream_lease> second_;
  std::optional<stream_lease> third_;
  pinned_bytes landing_{shared_device(), ordered_bytes};
};

TEST_P(ordering, a_read_waits_for_the_last_write_on_another_stream) {
  const buffer b = filled(1);
  const auto held = hold(first());
  fill(b, 2, first());
  queue_read(b, landing(), second());
  if (held) {
    EXPECT_FALSE(second().idle()) << "the read did not wait";
  }
  open(held);
  ctx()->synchronize(second());
  EXPECT_TRUE(landed(2));
}

TEST_P(ordering, a_write_waits_for_the_reads_of_two_other_streams) {
  const buffer b = filled(1);
  const buffer copy = filled(0);
  const auto held = hold(first());
  {
    use_token token(first(), {reads(b), writes(copy)});
    ctx()->copies().copy(token.span<char>(copy).data(), token.span<const char>(b).data(), ordered_bytes,
                         within(), first());
  }
  queue_read(b, landing(), second());
  fill(b, 9, third());
  if (held) {
    EXPECT_FALSE(third().idle()) << "the write did not wait for the held read";
  }
  open(held);
  ctx()->synchronize(third());
  ctx()->synchronize(second());
  EXPECT_TRUE(landed(1));
  EXPECT_EQ(read(copy), std::vector<std::uint8_t>(ordered_bytes, 1));
  EXPECT_EQ(read(b), std::vector<std::uint8_t>(ordered_bytes, 9));
}

TEST_P(ordering, a_token_destroyed_by_an_exception_still_orders_its_work) {
  const buffer b = filled(1);
  const auto held = hold(first());
  try {
    use_token token(first(), {writes(b)});
    ctx()->copies().fill(token.span<char>(b).data(), 5, ordered_bytes, first());
    throw std::runtime_error("dropped");
  } catch (const std::runtime_error&) {
    queue_read(b, landing(), second());
  }
  if (held) {
    EXPECT_FALSE(second().idle());
  }
  open(held);
  ctx()->synchronize(second());
  EXPECT_TRUE(landed(5));
}

TEST_P(ordering, all_readers_are_waited_for_beyond_the_tracked_number) {
  const buffer b = filled(3);
  std::vector<stream_lease> readers;
  std::vector<buffer> copies;
  for (std::size_t i = 0; i < 2 * ordering_state::max_reads; ++i) {
    readers.push_back(ctx()->borrow_stream());
    copies.push_back(filled(0));
  }
  const auto held = hold(readers.front().ref());
  for (std::size_t i = 0; i < readers.size(); ++i) {
    use_token token(readers[i].ref(), {reads(b), writes(copies[i])});
    ctx()->copies().copy(token.span<char>(copies[i]).data(), token.span<const char>(b).data(), ordered_bytes,
                         within(), readers[i].ref());
  }
  EXPECT_LE(b.owner()->ordering().find_dependencies(access::write, "b").points.size(),
            ordering_state::max_reads + 1);
  fill(b, 7, second());
  if (held) {
    EXPECT_FALSE(second().idle()) << "the oldest reader was forgotten";
  }
  open(held);
  for (const buffer& copy : copies) {
    EXPECT_EQ(read(copy), std::vector<std::uint8_t>(ordered_bytes, 3));
  }
}

TEST_P(ordering, memory_dropped_during_a_write_is_not_reused_before_its_end) {
  auto b = std::optional(filled(1));
  const auto held = hold(first());
  fill(*b, 0xEE, first());
  const std::uintptr_t address = b->address();
  b.reset();
  const auto next = fill_until_reused(address, 0xAA, second());
  open(held);
  for (const buffer& each : next) {
    EXPECT_EQ(read(each), std::vector<std::uint8_t>(ordered_bytes, 0xAA)) << "the pending fill shows";
  }
}

TEST_P(ordering, memory_freed_during_reads_of_two_streams_keeps_its_bytes) {
  auto b = std::optional(filled(5));
  const buffer copy = filled(0);
  const auto held = hold(first());
  {
    use_token token(first(), {reads(*b), writes(copy)});
    ctx()->copies().copy(token.span<char>(copy).data(), token.span<const char>(*b).data(), ordered_bytes,
                         within(), first());
  }
  queue_read(*b, landing(), second());
  const std::uintptr_t address = b->address();
  b.reset();
  const auto next = fill_until_reused(address, 0xAA, third());
  open(held);
  ctx()->synchronize(second());
  EXPECT_TRUE(landed(5));
  EXPECT_EQ(read(copy), std::vector<std::uint8_t>(ordered_bytes, 5)) << "reused before the held read";
  for (const buffer& each : next) {
    EXPECT_EQ(read(each), std::vector<std::uint8_t>(ordered_bytes, 0xAA));
  }
}

TEST_P(ordering, memory_is_reused_on_one_stream_without_a_wait_of_the_host) {
  const std::uintptr_t address = buffer::allocate(ctx(), ordered_bytes, first(), "round").address();
  const auto held = hold(first());
  ctx()->copies().reset_counters();
  for (std::uint8_t round = 1; round <= 8; ++round) {
    const buffer b = buffer::allocate(ctx(), ordered_bytes, first(), "round");
    EXPECT_EQ(b.address(), address) << "reused at once";
    fill(b, round, first());
    queue_read(b, landing(), first());
  }
  EXPECT_EQ(ctx()->copies().read_counters().synchronizations, 0U);
  if (held) {
    EXPECT_FALSE(first().idle()) << "the host has waited";
  }
  open(held);
  ctx()->synchronize(first());
  EXPECT_TRUE(landed(8));
}

TEST_P(ordering, an_external_keepalive_outlives_the_work_on_its_memory) {
  const buffer lent = filled(4); // used as the memory of another library
  std::weak_ptr<void> alive;
  const auto held = hold(first());
  {
    external_memory memory;
    memory.pointer = reinterpret_cast<void*>(lent.address());
    memory.bytes = ordered_bytes;
    memory.device = ctx()->device();
    memory.tag = "lent";
    memory.keepalive = std::make_shared<int>(1);
    alive = memory.keepalive;
    const buffer view = buffer::adopt(ctx(), std::move(memory));
    queue_read(view, landing(), first());
    EXPECT_EQ(ctx()->reports().statistics().ledger.external, ordered_bytes);
    EXPECT_THROW(use_token(first(), {writes(view)}), error) << "read-only";
  }
  EXPECT_EQ(ctx()->reports().statistics().ledger.external, 0U);
  if (held) {
    EXPECT_FALSE(alive.expired()) << "given back while the copy was pending";
    EXPECT_EQ(ctx()->reports().statistics().pending_releases, 1U);
  }
  open(held);
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_TRUE(alive.expired());
  ctx()->synchronize(first());
  EXPECT_TRUE(landed(4));
}

TEST_P(ordering, an_export_is_released_after_work_on_an_unknown_stream) {
  auto b = std::optional(filled(6));
  const stream foreign(shared_device());
  const auto held = hold(foreign.ref());
  {
    const std::array views{*b};
    const export_hold consumer(views, access::read);
    device().copy(landing(), reinterpret_cast<const void*>(b->address()), ordered_bytes, to_host(),
                  foreign.ref().native_handle());
  }
  const std::uintptr_t address = b->address();
  b.reset();
  const auto next = fill_until_reused(address, 0xAA, second());
  open(held);
  ctx()->synchronize(foreign.ref());
  EXPECT_TRUE(landed(6)) << "the memory was reused before the consumer had read it";
}

TEST_P(ordering, a_view_returned_during_an_announced_capture_is_released_afterwards) {
  auto b = std::optional(filled(6));
  const stream foreign(shared_device());
  std::shared_ptr<void> capture = ctx()->capturing();
  const auto held = hold(foreign.ref());
  {
    const std::array views{*b};
    const export_hold consumer(views, access::read);
    device().copy(landing(), reinterpret_cast<const void*>(b->address()), ordered_bytes, to_host(),
                  foreign.ref().native_handle());
  }
  b.reset();
  if (held) {
    EXPECT_EQ(ctx()->reports().statistics().pending_releases, 1U)
        << "released before its consumer was waited for";
    EXPECT_EQ(ctx()->reports().statistics().budget.current, ordered_bytes);
  }
  capture.reset();
  open(held);
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
  ctx()->synchronize(foreign.ref());
  EXPECT_TRUE(landed(6));
}

TEST_P(ordering, a_write_waits_for_the_consumers_of_an_outstanding_export) {
  const buffer b = filled(6);
  const stream foreign(shared_device());
  const auto held = hold(foreign.ref());
  const std::array views{b};
  const export_hold consumer(views, access::read);
  device().copy(landing(), reinterpret_cast<const void*>(b.address()), ordered_bytes, to_host(),
                foreign.ref().native_handle());
  fill(b, 8, second());
  if (held) {
    EXPECT_FALSE(second().idle());
  }
  open(held);
  ctx()->synchronize(foreign.ref());
  EXPECT_TRUE(landed(6));
}

TEST_P(ordering, a_hand_over_waits_for_a_view_returned_during_a_capture) {
  for (const bool for_host : {false, true}) {
    const buffer b = filled(1);
    const stream foreign(shared_device());
    const auto held = hold(foreign.ref());
    {
      const std::shared_ptr<void> capture = ctx()->capturing();
      const export_hold consumer(std::array{b}, access::write);
      fill_unannounced(b, 7, foreign);
    }
    expect_handover_in_order(b, foreign, held, 7, for_host);
    EXPECT_EQ(read(b), std::vector<std::uint8_t>(ordered_bytes, 7));
  }
}

TEST_P(ordering, a_hand_over_waits_for_a_writer_with_an_outstanding_view) {
  for (const bool for_host : {false, true}) {
    const buffer b = filled(1);
    const stream foreign(shared_device());
    const auto held = hold(foreign.ref());
    const export_hold consumer(std::array{b}, access::write);
    fill_unannounced(b, 8, foreign);
    expect_handover_in_order(b, foreign, held, 8, for_host);
  }
}

TEST_P(ordering, a_hand_over_waits_for_a_token_that_ended_inside_a_capture) {
  for (const bool for_host : {false, true}) {
    const buffer b = filled(1);
    const stream foreign(shared_device());
    const auto held = hold(foreign.ref());
    auto token = std::make_optional<use_token>(foreign.ref(), std::initializer_list<use>{writes(b)});
    ctx()->copies().fill(token->span<char>(b).data(), 9, ordered_bytes, foreign.ref());
    graph_capture capture(device(), foreign.ref().native_handle());
    token.reset(); // no event can be recorded during the capture for work before it
    if (!ctx()->on_host()) {
      EXPECT_THROW(order_handover(std::array{b}, second()), error) << "while the capture goes on";
    }
    EXPECT_TRUE(capture.end());
    expect_handover_in_order(b, foreign, held, 9, for_host);
  }
}

TEST_P(ordering, unknown_work_is_settled_once) {
  const buffer b = filled(1);
  const auto events = [&] { return ctx()->clocks()->events_recorded(); };
  const std::uint64_t one = ctx()->on_host() ? 0 : 1; // an event over all work of the device
  for (const access consumer : {access::read, access::write}) {
    for (const access mode : {access::read, access::write}) {
      const auto use_it = [&] { const use_token token(first(), {{b, mode}}); };
      { const use_token known(first(), {writes(b)}); } // so that no other event is needed
      { const export_hold view(std::array{b}, consumer); }
      const bool conflict = consumer == access::write || mode == access::write;
      std::uint64_t before = events();
      use_it();
      EXPECT_EQ(events() - before, conflict ? one : 0);
      before = events();
      const std::shared_ptr<void> capture = ctx()->capturing(); // prevents events over all work
      EXPECT_NO_THROW(use_it());
      EXPECT_NO_THROW(use_it());
      EXPECT_EQ(events() - before, 0U) << "asked for all work of the device again";
    }
  }
}

TEST_P(ordering, a_keepalive_without_a_pointer_is_dropped_in_order) {
  const buffer lent = filled(4); // used as the memory of another library
  std::atomic<bool> dropped{false};
  const auto held = hold(first());
  {
    external_memory memory;
    memory.pointer = reinterpret_cast<void*>(lent.address());
    memory.bytes = ordered_bytes;
    memory.device = ctx()->device();
    memory.tag = "lent";
    memory.keepalive = std::shared_ptr<void>(nullptr, [&dropped](void*) { dropped = true; });
    const buffer view = buffer::adopt(ctx(), std::move(memory));
    queue_read(view, landing(), first());
  }
  if (held) {
    EXPECT_FALSE(dropped) << "dropped while the copy was pending";
    EXPECT_EQ(ctx()->reports().statistics().pending_releases, 1U);
  }
  open(held);
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_TRUE(dropped);
  ctx()->synchronize(first());
  EXPECT_TRUE(landed(4));
}

TEST_P(ordering, using_a_held_buffer_again_on_the_same_thread_throws_busy) {
  const buffer b = filled(0);
  const use_token outer(first(), {reads(b)});
  EXPECT_NO_THROW(use_token(second(), {reads(b)})) << "reads go together";
  try {
    const use_token inner(second(), {writes(b)});
    FAIL() << "a write inside a read of the same thread";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::busy);
  }
}

TEST_P(ordering, a_hand_over_waits_for_the_token_of_another_thread_and_refuses_its_own) {
  const buffer b = filled(1);
  const std::array views{b};
  std::optional<use_token> writing(std::in_place, first(), std::initializer_list<use>{writes(b)});
  EXPECT_THROW(order_handover(views, second()), error) << "inside a write token of this thread";
  std::atomic<bool> begun{false};
  std::thread consumer([&] {
    begun = true;
    order_handover(views, second());
    device().copy(landing(), reinterpret_cast<const void*>(b.address()), ordered_bytes, to_host(),
                  second().native_handle());
  });
  while (!begun) {
    std::this_thread::yield();
  }
  ctx()->copies().fill(writing->span<char>(b).data(), 5, ordered_bytes, first());
  writing.reset();
  consumer.join();
  ctx()->synchronize(second());
  EXPECT_TRUE(landed(5)) << "handed over before the write was finished";
}

TEST_P(ordering, a_repeated_buffer_is_held_once_with_the_stronger_access) {
  const buffer b = filled(1);
  {
    use_token token(first(), {reads(b.slice(0, 10)), writes(b.slice(10, 10)), reads(b)});
    EXPECT_THROW(use_token(second(), {reads(b)}), error) << "a write goes with nothing else";
    ctx()->copies().fill(token.span<char>(b).data(), 2, ordered_bytes, first());
  }
  queue_read(b, landing(), second());
  ctx()->synchronize(second());
  EXPECT_TRUE(landed(2));
}

TEST_P(ordering, a_failed_token_holds_nothing) {
  const buffer a = filled(0);
  const buffer b = filled(0);
  {
    const use_token outer(first(), {writes(b)});
    EXPECT_THROW(use_token(second(), {writes(a), reads(b)}), error);
  }
  EXPECT_NO_THROW(use_token(third(), {writes(a), writes(b)}));
}

TEST_P(ordering, two_threads_write_a_buffer_one_after_the_other) {
  const buffer b = filled(0);
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      const stream_ref mine = t == 0 ? first() : second();
      for (int round = 0; round < 200; ++round) {
        use_token token(mine, {writes(b)});
        auto* at = token.span<std::uint8_t>(b).data();
        ctx()->copies().fill(at, static_cast<std::uint8_t>(t + 1), ordered_bytes / 2, mine);
        ctx()->copies().fill(at + ordered_bytes / 2, static_cast<std::uint8_t>(t + 1), ordered_bytes / 2,
                             mine);
      }
    });
  }
  for (std::thread& t : writers) {
    t.join();
  }
  const auto back = read(b);
  EXPECT_EQ(back, std::vector<std::uint8_t>(ordered_bytes, back.front())) << "two writes interleaved";
}

TEST_P(ordering, an_address_is_reused_on_other_streams_without_corruption) {
  for (std::uint8_t round = 0; round < 64; ++round) {
    const stream_ref writer = round % 2 == 0 ? first() : second();
    const stream_ref reader = round % 2 == 0 ? third() : first();
    const buffer b = buffer::allocate(ctx(), ordered_bytes, writer, "round");
    fill(b, round, writer);
    queue_read(b, landing(), reader);
    ctx()->synchronize(reader);
    ASSERT_TRUE(landed(round)) << "round " << int{round};
  }
}

TEST_P(ordering, streams_of_two_backends_with_the_same_id_are_not_the_same) {
  const auto second = second_device();
  if (!second) {
    GTEST_SKIP() << one_device_alone;
  }
  std::vector<stream> there; // until one has the id of `first`, if devices number their streams separately
  do {
    there.emplace_back(second);
  } while (there.back().ref().id() < first().id() && there.size() < 64);
  const stream_ref waiting = there.back().ref();
  const auto held = hold(first());
  wait(waiting, mark(first()));
  if (held) {
    EXPECT_FALSE(waiting.idle()) << "stream " << waiting.id() << " did not wait for stream " << first().id()
                                 << " of another device";
  }
  open(held);
  second->synchronize_stream(waiting.native_handle());
}

TEST(ordering_of_two_backends, a_host_stream_waits_for_a_device_stream_with_the_same_id) {
  sim::options chosen;
  chosen.run_percent = 0; // work runs only when a call waits for it
  const auto device = sim::device::create(chosen);
  const auto host = make_host_backend();
  const stream_ref theirs(*device, legacy_stream);
  const stream_ref ours(*host, legacy_stream);
  ASSERT_EQ(theirs.id(), ours.id());
  bool ran = false;
  device->host_callback(legacy_stream, [&ran] { ran = true; });
  const auto clocks = timelines::of(*device);
  wait(ours, mark(theirs));
  EXPECT_TRUE(ran) << "the host went on before the device had finished";
}

SAETA_CONFORMANCE_SUITE(ordering);

} // namespace
} // namespace saeta::conformance
