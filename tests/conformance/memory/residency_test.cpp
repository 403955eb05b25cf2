// Storages whose bytes move from one kind of memory to another.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/interop/dlpack.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "saeta/transfer/download.hpp"
#include "support/dlpack_tensors.hpp"
#include "support/faulty_backend.hpp"

#include <gmock/gmock.h>

#include <array>
#include <optional>

namespace saeta::conformance {
namespace {

using saeta::testing::faulty_backend;

constexpr std::size_t bytes = 10'000;

class residency : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    moved_ = make(bytes, "moved");
    use_token token(home()->work_stream(), {writes(moved_)});
    home()->fill(token.mutable_data<char>(moved_), 7, bytes, token.stream());
    home()->fill(token.mutable_data<char>(moved_) + 1, 8, 1, token.stream());
  }
  void TearDown() override {
    moved_ = {};
    context_test::TearDown();
  }

  [[nodiscard]] storage& moved() const { return *moved_.owner(); }
  void settle() const { EXPECT_TRUE(home()->wait_for_releases(std::chrono::seconds(20))); }
  [[nodiscard]] std::uint64_t on_device() const { return home()->memory_budget()->statistics().current; }
  [[nodiscard]] std::uint64_t on_host() const { return home()->pinned_budget()->statistics().current; }
  [[nodiscard]] static std::vector<std::uint8_t> content() {
    std::vector<std::uint8_t> expected(bytes, 7);
    expected[1] = 8;
    return expected;
  }
  /// Whatever the kind of its memory.
  [[nodiscard]] std::vector<std::uint8_t> read_any(const buffer& used) const {
    std::vector<std::uint8_t> seen(used.size());
    {
      use_token token(home()->work_stream(), {reads(used)});
      home()->copy(seen.data(), token.data<std::uint8_t>(used), seen.size(),
                   home()->kind_of_copy(used.kind(), memory_kind::host), token.stream());
    }
    home()->synchronize(home()->work_stream());
    return seen;
  }
  void expect_busy(const std::string& says) const {
    try {
      moved().relocate(memory_kind::pinned);
      ADD_FAILURE() << "moved: " << says;
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::busy);
      EXPECT_THAT(refused.message(), ::testing::HasSubstr("'moved'"));
      EXPECT_THAT(refused.message(), ::testing::HasSubstr(says));
    }
    settle();
    EXPECT_EQ(on_device(), bytes) << "nothing is left charged";
  }

  buffer moved_;
};

TEST_P(residency, bytes_move_to_page_locked_memory_and_back_with_their_charge) {
  const std::uint64_t generation = moved().generation();
  const std::uintptr_t before = moved_.address();
  const memory_kind own = moved_.kind();
  const buffer part = moved_.slice(1, 2);

  moved().relocate(memory_kind::pinned);
  EXPECT_NE(moved_.address(), before);
  EXPECT_EQ(part.address(), moved_.address() + 1);
  EXPECT_EQ(moved_.kind(), home()->on_host() ? memory_kind::host : memory_kind::pinned);
  EXPECT_EQ(moved_.kind(), device().kind_of(reinterpret_cast<void*>(moved_.address())));
  settle();
  EXPECT_EQ(on_host(), bytes);
  EXPECT_EQ(on_device(), home()->on_host() ? bytes : 0U);
  EXPECT_EQ(home()->live_by_budget(), (bytes_by_name{{home()->pinned_budget()->name(), bytes}}));
  EXPECT_EQ(read_any(moved_), content());

  moved().relocate(memory_kind::device);
  EXPECT_EQ(moved_.kind(), own);
  settle();
  EXPECT_EQ(on_device(), bytes);
  EXPECT_EQ(on_host(), home()->on_host() ? bytes : 0U);
  EXPECT_EQ(read_any(part), (std::vector<std::uint8_t>{8, 7}));
  EXPECT_EQ(moved().generation(), generation);
  EXPECT_EQ(moved().tag(), "moved");
  EXPECT_EQ(home()->live_by_tag(), (bytes_by_name{{"moved", bytes}}));
}

TEST_P(residency, a_move_is_counted_as_one_transfer) {
  const auto transfers = [&] {
    const counter_values now = home()->read_counters();
    return std::array{now.host_to_device.transfers, now.device_to_host.transfers, now.host_to_host.transfers};
  };
  const auto before = transfers();
  moved().relocate(memory_kind::pinned);
  auto expected = before;
  ++expected[home()->on_host() ? 2 : 1];
  EXPECT_EQ(transfers(), expected);
  moved().relocate(memory_kind::device);
  ++expected[home()->on_host() ? 2 : 0];
  EXPECT_EQ(transfers(), expected);
  settle();
}

TEST_P(residency, a_move_settles_unknown_work) {
  { const export_hold view(std::array{moved_}, access::write); }
  moved().relocate(memory_kind::pinned);
  const std::shared_ptr<void> capture =
      home()->capturing(); // in which all work of the device can't be asked for
  EXPECT_NO_THROW(use_token(home()->work_stream(), {writes(moved_)}));
}

TEST_P(residency, bytes_that_are_there_already_stay) {
  const std::uintptr_t before = moved_.address();
  moved().relocate(memory_kind::device);
  EXPECT_EQ(moved_.address(), before);
  moved().relocate(memory_kind::pinned);
  const std::uintptr_t pinned = moved_.address();
  moved().relocate(memory_kind::pinned);
  EXPECT_EQ(moved_.address(), pinned);
  const buffer none = make(0);
  const memory_kind own = none.kind();
  none.owner()->relocate(memory_kind::pinned);
  EXPECT_EQ(none.address(), 0U);
  EXPECT_EQ(none.kind(), own);
  const buffer one = make(1);
  const std::uintptr_t first = one.address();
  one.owner()->relocate(memory_kind::pinned);
  EXPECT_NE(one.address(), first);
  settle();
}

TEST_P(residency, bytes_that_are_there_already_need_no_room) {
  context_options options;
  options.budget = bytes;
  const auto full = new_context(options);
  const buffer stays = buffer::allocate(full, bytes, full->work_stream(), "stays");
  EXPECT_NO_THROW(stays.owner()->relocate(memory_kind::device));
}

TEST_P(residency, a_move_stands_behind_work_that_nobody_announced) {
  home()->synchronize(home()->work_stream()); // what `SetUp` wrote
  const stream consumer(shared_device());
  const auto held = close_gate(consumer.ref().native_handle());
  {
    const export_hold view(std::array{moved_}, access::write);
    home()->fill(reinterpret_cast<void*>(moved_.address()), 5, bytes,
                 consumer.ref()); // NOLINT(performance-no-int-to-ptr)
  }
  moved().relocate(memory_kind::pinned);
  if (held) {
    held->open();
  }
  EXPECT_EQ(read_any(moved_), std::vector<std::uint8_t>(bytes, 5));
}

TEST_P(residency, a_move_of_memory_whose_users_are_known_asks_for_nobody_else) {
  const std::shared_ptr<void> capture =
      home()->capturing(); // in which all work of the device can't be asked for
  EXPECT_NO_THROW(moved().relocate(memory_kind::pinned));
}

TEST_P(residency, a_move_that_fails_leaves_earlier_work_to_be_waited_for) {
  const auto faulty = std::make_shared<faulty_backend>(shared_device());
  {
    const auto other = watch(context::create(faulty));
    const auto writer = other->borrow_stream();
    const auto reader = other->borrow_stream();
    for (std::uint64_t position = 1; position < 8; ++position) {
      SCOPED_TRACE(position);
      const buffer b = buffer::allocate(other, bytes, writer.ref(), "moved");
      const auto held = close_gate(writer.ref().native_handle());
      {
        use_token token(writer.ref(), {writes(b)});
        other->fill(token.mutable_data<char>(b), 6, bytes, writer.ref());
      }
      faulty->fail_at(position);
      try {
        b.owner()->relocate(memory_kind::pinned);
      } catch (const error&) {
        EXPECT_TRUE(faulty->failed());
      }
      faulty->fail_at(0);
      std::vector<std::uint8_t> seen(bytes);
      {
        use_token token(reader.ref(), {reads(b)});
        if (held) {
          EXPECT_FALSE(device().stream_idle(reader.ref().native_handle())) << "it waits for the writer";
          held->open();
        }
        other->copy(seen.data(), token.data<std::uint8_t>(b), bytes,
                    other->kind_of_copy(b.kind(), memory_kind::host), reader.ref());
      }
      other->synchronize(reader.ref());
      EXPECT_EQ(seen, std::vector<std::uint8_t>(bytes, 6));
      EXPECT_TRUE(other->wait_for_releases(std::chrono::seconds(20)));
    }
    EXPECT_TRUE(other->wait_for_releases(std::chrono::seconds(20)));
  }
  EXPECT_EQ(faulty->alive(), 0);
}

/// Page-locked memory goes back only once its work has finished; the device's goes back in stream order.
TEST_P(residency, dropping_moved_bytes_waits_for_nobody) {
  const auto writer = home()->borrow_stream();
  for (const memory_kind last : {memory_kind::pinned, memory_kind::device}) {
    buffer b = make(bytes, "dropped");
    b.owner()->relocate(memory_kind::pinned);
    b.owner()->relocate(last);
    const auto held = close_gate(writer.ref().native_handle());
    fill(b, 3, writer.ref());
    b = {}; // with the gate closed
    if (held) {
      held->open();
    }
    settle();
  }
}

TEST_P(residency, a_move_logs_the_blocks_that_come_and_go) {
  const auto seen = std::make_shared<memory_sink>();
  home()->log()->attach(seen);
  {
    const buffer b = make(bytes, "logged");
    b.owner()->relocate(memory_kind::pinned);
    settle();
    b.owner()->relocate(memory_kind::device);
    settle();
  }
  settle();
  home()->log()->detach(seen);
  std::vector<std::uint64_t> live;
  for (const log_record& record : seen->records()) {
    if (record.event == memory_event::allocate) {
      live.push_back(record.generation);
    } else if (record.event == memory_event::free) {
      EXPECT_EQ(std::erase(live, record.generation), 1U) << "of a block that was allocated";
    }
  }
  EXPECT_TRUE(live.empty());
}

TEST_P(residency, a_move_waits_for_nobody_and_stands_behind_pending_work) {
  const auto writer = home()->borrow_stream();
  const auto held = close_gate(writer.ref().native_handle());
  fill(moved_, 3, writer.ref());
  moved().relocate(memory_kind::pinned);
  if (held) {
    EXPECT_FALSE(device().stream_idle(home()->work_stream().native_handle())) << "the copy is to come";
    held->open();
  }
  EXPECT_EQ(read_any(moved_), std::vector<std::uint8_t>(bytes, 3));
}

TEST_P(residency, memory_that_is_handed_out_stays_where_it_is) {
  {
    const std::array views{moved_};
    const export_hold consumer(views, access::read);
    const export_hold another(views, access::write);
    expect_busy("views handed out: 2, open uses: 0");
  }
  moved().relocate(memory_kind::pinned); // behind whatever they did
  EXPECT_EQ(read_any(moved_), content());
}

TEST_P(residency, a_tensor_pins_its_column) {
  const column source = column::make(home(), {data_type(type_id::uint8), bytes, 0, 0, {{}, moved_}, {}});
  {
    const support::held_tensor<DLManagedTensorVersioned> tensor(
        export_dlpack_versioned(source, home()->on_host() ? dlpack_export{} : support::export_on(-1)));
    expect_busy("views handed out: 1, open uses: 0");
  }
  moved().relocate(memory_kind::pinned);
}

TEST_P(residency, a_view_of_host_memory_pins_it) {
  if (!home()->on_host()) {
    moved().relocate(memory_kind::pinned);
    settle();
  }
  const column source = column::make(home(), {data_type(type_id::uint8), bytes, 0, 0, {{}, moved_}, {}});
  std::optional<host_batch> view = view_in_place({static_cast<std::int64_t>(bytes), {source}});
  const memory_kind elsewhere = home()->on_host() ? memory_kind::pinned : memory_kind::device;
  EXPECT_THROW(moved().relocate(elsewhere), error);
  view.reset();
  moved().relocate(elsewhere);
  EXPECT_EQ(read_any(moved_), content());
}

TEST_P(residency, memory_in_use_stays_where_it_is) {
  {
    const use_token token(home()->work_stream(), {reads(moved_)});
    expect_busy("views handed out: 0, open uses: 1");
  }
  {
    const use_token token(home()->work_stream(), {writes(moved_)});
    expect_busy("views handed out: 0, open uses: 1");
  }
  moved().relocate(memory_kind::pinned);
}

TEST_P(residency, memory_of_somebody_else_is_not_moved) {
  external_memory lent;
  lent.pointer = reinterpret_cast<void*>(moved_.address());
  lent.bytes = bytes;
  lent.device = home()->device();
  lent.keepalive = moved_.owner();
  lent.tag = "lent";
  const buffer view = buffer::adopt(home(), std::move(lent));
  EXPECT_THROW(view.owner()->relocate(memory_kind::pinned), error);
  EXPECT_EQ(view.owner()->lies_in(), (extent{reinterpret_cast<void*>(view.address()), bytes, 0}));
  EXPECT_THROW(moved().relocate(memory_kind::managed), error);
}

TEST_P(residency, a_move_without_room_changes_nothing) {
  context_options options;
  options.budget = home()->on_host() ? bytes : limit;
  options.pinned_budget = budget::create("host", bytes - 1);
  const auto small = new_context(options);
  const buffer stays = buffer::allocate(small, bytes, small->work_stream(), "stays");
  const std::uintptr_t before = stays.address();
  try {
    stays.owner()->relocate(memory_kind::pinned);
    ADD_FAILURE() << "moved";
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::budget_exceeded);
  }
  EXPECT_EQ(stays.address(), before);
  EXPECT_EQ(small->memory_budget()->statistics().current, bytes);
}

TEST_P(residency, strict_mode_refuses_a_move_to_the_host) {
  if (home()->on_host()) {
    GTEST_SKIP() << "there is nothing to download";
  }
  {
    const auto strict = home()->forbid_downloads();
    EXPECT_THROW(moved().relocate(memory_kind::pinned), error);
  }
  settle();
  EXPECT_EQ(on_host(), 0U);
  EXPECT_EQ(moved_.kind(), memory_kind::device);
  EXPECT_EQ(read_any(moved_), content());
}

TEST_P(residency, nothing_is_lost_whatever_call_of_a_move_fails) {
  const auto faulty = std::make_shared<faulty_backend>(shared_device());
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  {
    const auto other = watch(context::create(faulty));
    const auto writer = other->borrow_stream();
    bool failed = true;
    for (std::uint64_t position = 1; failed; ++position) {
      SCOPED_TRACE(position);
      const buffer b = buffer::allocate(other, bytes, writer.ref(), "moved");
      const auto written = static_cast<std::uint8_t>(position);
      {
        use_token token(writer.ref(), {writes(b)});
        other->fill(token.mutable_data<char>(b), written, bytes, writer.ref());
      }
      faulty->fail_at(position);
      for (const memory_kind to : {memory_kind::pinned, memory_kind::device}) {
        try {
          b.owner()->relocate(to);
        } catch (const error&) {
          EXPECT_TRUE(faulty->failed());
        }
      }
      failed = faulty->failed();
      faulty->fail_at(0);
      other->trim(); // as much of it as a later round would otherwise do without
      std::vector<std::uint8_t> seen(bytes);
      {
        use_token token(writer.ref(), {reads(b)});
        other->copy(seen.data(), token.data<char>(b), bytes, other->kind_of_copy(b.kind(), memory_kind::host),
                    writer.ref());
      }
      other->synchronize(writer.ref());
      EXPECT_EQ(seen, std::vector<std::uint8_t>(bytes, written));
      EXPECT_TRUE(other->wait_for_releases(std::chrono::seconds(20)));
      const bool pinned = b.kind() == memory_kind::pinned;
      EXPECT_EQ(other->pinned_budget()->statistics().current, pinned || other->on_host() ? bytes : 0U);
      EXPECT_EQ(other->memory_budget()->statistics().current, pinned ? 0U : bytes);
    }
  }
  set_report_sink(before);
}

TEST_P(residency, threads_that_use_it_and_threads_that_move_it_do_not_disturb_each_other) {
  constexpr int rounds = 200;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (const memory_kind to : {memory_kind::pinned, memory_kind::device}) {
      threads.emplace_back([&, to] {
        while (!stop) {
          try {
            moved().relocate(to);
          } catch (const error& refused) {
            wrong += refused.code() != errc::busy;
          }
        }
      });
    }
    threads.emplace_back([&] {
      while (!stop) {
        const std::array views{moved_};
        const export_hold consumer(views, access::read);
        const std::uintptr_t address = moved_.address();
        std::this_thread::yield();
        wrong += address != moved_.address();
      }
    });
    const auto mine = home()->borrow_stream();
    for (int i = 0; i < rounds; ++i) {
      const auto value = static_cast<std::uint8_t>(i);
      fill(moved_, value, mine.ref());
      const std::vector<std::uint8_t> seen = read_any(moved_);
      wrong += seen.front() != value || seen.back() != value;
    }
    stop = true;
  }
  EXPECT_EQ(wrong, 0);
  settle();
}

TEST_P(residency, a_storage_knows_about_when_it_was_used_last) {
  const buffer busy = make(100);
  const std::uint64_t made = moved().used().tick();
  EXPECT_LE(made, use_clock::now());
  for (std::uint32_t i = 0; i < 2 * use_clock::uses_per_tick; ++i) {
    fill(busy, 1, home()->work_stream());
  }
  EXPECT_GT(busy.owner()->used().tick(), moved().used().tick());
  {
    const std::array views{moved_};
    const export_hold consumer(views, access::read);
  }
  EXPECT_GE(moved().used().tick(), busy.owner()->used().tick());
}

TEST_P(residency, bytes_tell_the_allocation_that_they_lie_in) {
  const buffer first = make(1000);
  const buffer second = make(1000);
  const extent one = first.owner()->lies_in();
  const extent two = second.owner()->lies_in();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.base) + one.offset, first.address());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(two.base) + two.offset, second.address());
  EXPECT_LE(one.offset + 1000, one.bytes);
  EXPECT_EQ(one.base, two.base) << "of one slab of the cache";
  EXPECT_NE(one.offset, two.offset);
  moved().relocate(memory_kind::pinned);
  const extent pinned = moved().lies_in();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned.base), moved_.address());
  EXPECT_EQ(pinned.offset, 0U);
  EXPECT_GE(pinned.bytes, bytes);
  EXPECT_EQ(make(0).owner()->lies_in(), extent{});
}

SAETA_CONFORMANCE_SUITE(residency);

} // namespace
} // namespace saeta::conformance
