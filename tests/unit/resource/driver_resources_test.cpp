// The base resources of a stack over a mocked driver that allocates host memory.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "unit/base/raises.hpp"
#include "unit/device/mock_backend.hpp"
#include "unit/observe/counted_new.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace saeta {
namespace {

using ::testing::_;
using ::testing::AnyNumber;
using ::testing::DoDefault;
using ::testing::InSequence;
using ::testing::NiceMock;
using ::testing::Return;
using ::testing::Throw;
using unit::code_raised_by;

constexpr std::size_t most = std::numeric_limits<std::size_t>::max();

class driver_resources : public ::testing::Test {
protected:
  driver_resources() {
    ON_CALL(*driver, device()).WillByDefault(Return(device_id{device_kind::cuda, 0}));
    ON_CALL(*driver, create_stream()).WillByDefault([this] { return memory_->create_stream(); });
    ON_CALL(*driver, stream_id(_)).WillByDefault([](stream_handle s) {
      return static_cast<std::uint64_t>(s);
    });
    ON_CALL(*driver, create_event()).WillByDefault([this] { return memory_->create_event(); });
    ON_CALL(*driver, event_complete(_)).WillByDefault([this](event_handle) { return finished; });
    ON_CALL(*driver, allocate(_, _)).WillByDefault([this](std::size_t bytes, std::size_t alignment) {
      return memory_->allocate(bytes, alignment);
    });
    ON_CALL(*driver, deallocate(_, _, _))
        .WillByDefault([this](void* pointer, std::size_t bytes, std::size_t alignment) {
          return memory_->deallocate(pointer, bytes, alignment);
        });
    ON_CALL(*driver, allocate_async(_, _)).WillByDefault([this](std::size_t bytes, stream_handle) {
      return memory_->allocate(bytes, device_alignment);
    });
    ON_CALL(*driver, deallocate_async(_, _, _))
        .WillByDefault([this](void* pointer, std::size_t bytes, stream_handle) {
          return memory_->deallocate(pointer, bytes, device_alignment);
        });
    ON_CALL(*driver, allocate_pinned(_)).WillByDefault([this](std::size_t bytes) {
      return memory_->allocate_pinned(bytes);
    });
    ON_CALL(*driver, deallocate_pinned(_, _)).WillByDefault([this](void* pointer, std::size_t bytes) {
      return memory_->deallocate_pinned(pointer, bytes);
    });
  }
  [[nodiscard]] stream_ref stream() const { return stream_.ref(); }
  /// Checks that a free fails if the work on the block is pending and the wait for it fails. Returns the
  /// point of the work.
  point expect_kept_where_the_wait_fails(resource& from, const block& made) {
    finished = false;
    EXPECT_CALL(*driver, synchronize_event(_))
        .WillOnce(Throw(error(errc::device, "broken")))
        .WillRepeatedly(DoDefault());
    const point last = mark(stream());
    const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
    EXPECT_FALSE(from.deallocate(made, {&last, 1}));
    set_report_sink(before);
    return last;
  }

  bool finished = true; ///< all work of the device has finished
  std::shared_ptr<backend> memory_ = make_host_backend();
  std::shared_ptr<NiceMock<unit::mock_backend>> driver = std::make_shared<NiceMock<unit::mock_backend>>();

private:
  std::shared_ptr<timelines> clocks_ = timelines::of(*driver);
  own_stream stream_{clocks_};
};

TEST_F(driver_resources, fill_in_all_fields_of_a_block) {
  const block plain = describe_block({.bytes = 100, .label = "rows"}, driver->device(), 256, stream());
  EXPECT_EQ(plain.bytes, 100U);
  EXPECT_EQ(plain.base_bytes, 100U);
  EXPECT_EQ(plain.alignment, 256U);
  EXPECT_EQ(plain.device, driver->device());
  EXPECT_EQ(plain.stream_id, stream().id());
  EXPECT_EQ(plain.timeline, timeline_of(stream()));
  EXPECT_EQ(plain.label, tag("rows"));
  const block wider = describe_block({.bytes = 100, .alignment = 4096}, driver->device(), 256, stream());
  EXPECT_EQ(wider.alignment, 4096U);
  EXPECT_EQ(wider.base_bytes, 100U + 4096 - 256) << "room to move the block to an aligned address";
  const block none = describe_block({.bytes = 0, .alignment = 4096}, driver->device(), 256, stream());
  EXPECT_EQ(none.base_bytes, 0U);
  EXPECT_NE(plain.generation, wider.generation);
}

TEST_F(driver_resources, refuse_invalid_alignments_and_sizes) {
  const auto code_of = [&](std::size_t bytes, std::size_t alignment) {
    return code_raised_by([&] {
      static_cast<void>(
          describe_block({.bytes = bytes, .alignment = alignment}, driver->device(), 256, stream()));
    });
  };
  for (const std::size_t alignment : {3U, 6U, 257U, 768U}) {
    EXPECT_EQ(code_of(1, alignment), errc::invalid_argument) << alignment;
  }
  for (const std::size_t alignment : {0U, 1U, 2U, 256U, 65536U}) {
    EXPECT_FALSE(code_of(1, alignment)) << alignment;
  }
  EXPECT_EQ(code_of(most, 0), errc::overflow);
  EXPECT_EQ(code_of(most - 256, 512), errc::overflow);
  EXPECT_FALSE(code_of(most - 512, 512));
}

TEST_F(driver_resources, place_a_block_at_the_first_aligned_address) {
  for (const std::size_t address : {4096U, 4097U, 8191U, 8192U}) {
    block made = describe_block({.bytes = 1, .alignment = 4096}, driver->device(), 256, stream());
    place_block(made, reinterpret_cast<void*>(address)); // NOLINT(performance-no-int-to-ptr): never read
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.base), address);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.pointer), address == 4096 ? 4096U : 8192U);
  }
}

TEST_F(driver_resources, keep_a_block_whose_stream_can_not_be_marked) {
  direct_resource made(driver);
  const saeta::stream foreign(driver);
  const block taken = made.allocate(100, 0, foreign.ref());
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  EXPECT_CALL(*driver, record_event(_, _))
      .WillOnce(Throw(error(errc::device, "not now")))
      .WillRepeatedly(Return());
  EXPECT_FALSE(made.deallocate(taken, foreign.ref()));
  set_report_sink(before);
  EXPECT_EQ(made.held_bytes(), 100U);
  EXPECT_TRUE(made.deallocate(taken, foreign.ref()));
  EXPECT_EQ(made.held_bytes(), 0U);
}

TEST_F(driver_resources, give_blocks_unique_generations_on_all_threads) {
  constexpr std::size_t each = 10'000; // more numbers than a thread reserves at a time
  std::vector<std::vector<std::uint64_t>> taken(3);
  {
    std::vector<std::jthread> threads;
    for (auto& numbers : taken) {
      threads.emplace_back([&numbers] {
        for (std::size_t i = 0; i < each; ++i) {
          numbers.push_back(next_generation());
        }
      });
    }
  }
  std::set<std::uint64_t> all;
  for (const auto& numbers : taken) {
    all.insert(numbers.begin(), numbers.end());
  }
  EXPECT_EQ(all.size(), taken.size() * each);
  EXPECT_FALSE(all.contains(0)) << "0 stands for no block";
}

TEST_F(driver_resources, direct_counts_a_block_whose_free_fails) {
  direct_resource direct(driver);
  const block made = direct.allocate({.bytes = 1000, .alignment = 1024}, stream());
  EXPECT_EQ(direct.held_bytes(), made.base_bytes);
  EXPECT_CALL(*driver, deallocate(made.base, made.base_bytes, device_alignment))
      .WillOnce(Return(false))
      .WillRepeatedly(DoDefault());
  EXPECT_FALSE(direct.deallocate(made, std::span<const point>()));
  EXPECT_EQ(direct.held_bytes(), made.base_bytes);
  EXPECT_TRUE(direct.deallocate(made, std::span<const point>()));
  EXPECT_EQ(direct.held_bytes(), 0U);
}

TEST_F(driver_resources, direct_keeps_a_block_if_the_wait_for_its_work_fails) {
  direct_resource direct(driver);
  const block made = direct.allocate({.bytes = 1000}, stream());
  const point last = expect_kept_where_the_wait_fails(direct, made);
  EXPECT_EQ(direct.held_bytes(), made.base_bytes);
  finished = true;
  EXPECT_TRUE(direct.deallocate(made, {&last, 1}));
}

TEST_F(driver_resources, async_waits_for_pending_frees_before_it_fails) {
  async_resource async(driver);
  {
    const InSequence order;
    EXPECT_CALL(*driver, allocate_async(1000, stream().native_handle()))
        .WillOnce(Throw(error(errc::out_of_memory, "full")));
    EXPECT_CALL(*driver, wait_event(stream().native_handle(), _)).Times(2);
    EXPECT_CALL(*driver, allocate_async(1000, stream().native_handle()));
  }
  const block made = async.allocate({.bytes = 1000}, stream());
  EXPECT_EQ(async.held_bytes(), 1000U);
  EXPECT_CALL(*driver, wait_event(_, _)).Times(AnyNumber());
  EXPECT_TRUE(async.deallocate(made, std::span<const point>()));

  EXPECT_CALL(*driver, allocate_async(_, _))
      .Times(2)
      .WillRepeatedly(Throw(error(errc::out_of_memory, "full")));
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(async.allocate({.bytes = 1000}, stream())); }),
            errc::out_of_memory);
  EXPECT_CALL(*driver, allocate_async(_, _)).WillOnce(Throw(error(errc::device, "broken")));
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(async.allocate({.bytes = 1000}, stream())); }),
            errc::device)
      << "asked once: more memory does not mend it";
  EXPECT_EQ(async.held_bytes(), 0U);
}

TEST_F(driver_resources, async_frees_blocks_in_use_on_another_stream) {
  async_resource async(driver);
  const block idle = async.allocate({.bytes = 1000}, stream());
  const block busy = async.allocate({.bytes = 2000}, stream());
  const block none = async.allocate({.bytes = 0}, stream());
  EXPECT_EQ(async.held_bytes(), 3000U);
  finished = false;
  const point last = mark(stream());
  const point passed_already{};

  stream_handle of_idle{};
  stream_handle of_busy{};
  const auto note = [&](stream_handle& on) {
    return [&](void* pointer, std::size_t bytes, stream_handle stream) {
      on = stream;
      return memory_->deallocate(pointer, bytes, device_alignment);
    };
  };
  EXPECT_CALL(*driver, deallocate_async(busy.base, 2000, _)).WillOnce(Return(false)).WillOnce(note(of_busy));
  EXPECT_CALL(*driver, deallocate_async(idle.base, 1000, _)).WillOnce(note(of_idle));
  EXPECT_CALL(*driver, synchronize_stream(_)).Times(0); // the host does not wait
  EXPECT_FALSE(async.deallocate(busy, {&last, 1}));
  EXPECT_EQ(async.held_bytes(), 3000U);
  EXPECT_TRUE(async.deallocate(busy, {&last, 1}));
  EXPECT_EQ(async.held_bytes(), 1000U);
  EXPECT_TRUE(async.deallocate(idle, {&passed_already, 1}));
  EXPECT_TRUE(async.deallocate(none, std::span<const point>()));
  EXPECT_EQ(async.held_bytes(), 0U);
  finished = true;
  EXPECT_NE(of_idle, of_busy);
  EXPECT_NE(of_idle, stream().native_handle());
}

TEST_F(driver_resources, async_frees_on_the_stream_of_the_last_user) {
  async_resource async(driver);
  const own_stream other(timelines::of(*driver));
  const saeta::stream foreign(driver);
  std::vector<stream_handle> waited;
  ON_CALL(*driver, wait_event(_, _)).WillByDefault([&](stream_handle on, event_handle) {
    waited.push_back(on);
  });
  finished = false;
  const auto free_after_work_of = [&](const stream_ref& user) {
    const block busy = async.allocate({.bytes = 1000}, user);
    const point last = mark(user);
    EXPECT_TRUE(async.deallocate(busy, {&last, 1}));
  };
  const auto waits_of_allocation = [&](const stream_ref& on) {
    waited.clear();
    const block made = async.allocate({.bytes = 1000}, on);
    const std::vector<stream_handle> of_allocation = waited;
    finished = true;
    EXPECT_TRUE(async.deallocate(made, std::span<const point>()));
    finished = false;
    return of_allocation;
  };
  free_after_work_of(foreign.ref());
  EXPECT_TRUE(waits_of_allocation(foreign.ref()).empty()) << "it may begin to capture at any time";
  finished = true;
  EXPECT_TRUE(waits_of_allocation(stream()).empty()) << "what has passed does not matter";
  finished = false;
  free_after_work_of(stream());
  EXPECT_TRUE(waits_of_allocation(other.ref()).empty()) << "it would wait for the work of another stream";
  EXPECT_EQ(waits_of_allocation(stream()), std::vector{stream().native_handle()});
  free_after_work_of(other.ref());
  EXPECT_TRUE(waits_of_allocation(stream()).empty()) << "the frees wait for both streams";
  finished = true;
}

TEST_F(driver_resources, pinned_memory_is_cached_in_powers_of_two) {
  pinned_resource pinned(driver);
  struct {
    std::size_t bytes;
    std::size_t alignment;
    std::size_t taken;
  } const cases[] = {{1, 0, 4096},       {4096, 0, 4096},     {4097, 0, 8192},
                     {4096, 4096, 8192}, {100, 16384, 16384}, {1 << 20, 0, 1 << 20}};
  for (const auto& each : cases) {
    EXPECT_CALL(*driver, allocate_pinned(each.taken));
    const block made = pinned.allocate({.bytes = each.bytes, .alignment = each.alignment}, stream());
    EXPECT_EQ(made.base_bytes, each.taken);
    EXPECT_EQ(pinned.held_bytes(), each.taken);
    EXPECT_EQ(made.device, (device_id{device_kind::cuda, 0}));
    EXPECT_EQ(made.kind, memory_kind::pinned);
    EXPECT_TRUE(pinned.deallocate(made, std::span<const point>()));
    const block again = pinned.allocate({.bytes = each.bytes, .alignment = each.alignment}, stream());
    EXPECT_EQ(again.base, made.base) << "without a call of the driver";
    EXPECT_TRUE(pinned.deallocate(again, std::span<const point>()));
    EXPECT_EQ(pinned.held_bytes(), each.taken);
    EXPECT_EQ(pinned.trim(), each.taken);
    EXPECT_EQ(pinned.held_bytes(), 0U);
    EXPECT_EQ(pinned.trim(), 0U);
  }
  EXPECT_EQ(code_raised_by(
                [&] { static_cast<void>(pinned.allocate({.bytes = (std::size_t{1} << 62) + 1}, stream())); }),
            errc::overflow);
}

TEST_F(driver_resources, pinned_memory_whose_free_fails_is_kept) {
  pinned_resource pinned(driver);
  std::vector<block> made;
  for (int i = 0; i < 3; ++i) {
    made.push_back(pinned.allocate({.bytes = 4096}, stream()));
  }
  for (const block& each : made) {
    EXPECT_TRUE(pinned.deallocate(each, std::span<const point>()));
  }
  EXPECT_CALL(*driver, deallocate_pinned(made[2].base, 4096));
  EXPECT_CALL(*driver, deallocate_pinned(made[1].base, 4096))
      .WillOnce(Return(false))
      .WillRepeatedly(DoDefault());
  EXPECT_EQ(pinned.trim(), 4096U) << "the last that came back went first, and the second was refused";
  EXPECT_EQ(pinned.held_bytes(), 8192U);
  EXPECT_CALL(*driver, deallocate_pinned(made[0].base, 4096));
  EXPECT_EQ(pinned.trim(), 8192U);
}

TEST_F(driver_resources, pinned_keeps_a_block_if_the_wait_for_its_work_fails) {
  pinned_resource pinned(driver);
  const block made = pinned.allocate({.bytes = 4096}, stream());
  const point last = expect_kept_where_the_wait_fails(pinned, made);
  EXPECT_EQ(pinned.trim(), 0U) << "a block with pending work is not cached";
  finished = true;
  EXPECT_TRUE(pinned.deallocate(made, {&last, 1}));
}

TEST_F(driver_resources, pinned_memory_that_can_not_be_cached_stays_with_its_caller) {
  pinned_resource pinned(driver);
  const block made = pinned.allocate({.bytes = 4096}, stream());
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  {
    const unit::failing_new no_memory(0);
    EXPECT_FALSE(pinned.deallocate(made, std::span<const point>()));
  }
  set_report_sink(before);
  EXPECT_EQ(pinned.trim(), 0U);
  EXPECT_EQ(pinned.held_bytes(), 4096U);
  EXPECT_TRUE(pinned.deallocate(made, std::span<const point>()));
  EXPECT_EQ(pinned.trim(), 4096U);
}

TEST_F(driver_resources, pinned_memory_of_4_eib_is_requested_from_the_driver) {
  pinned_resource pinned(driver);
  EXPECT_CALL(*driver, allocate_pinned(std::size_t{1} << 62))
      .WillOnce(Throw(error(errc::out_of_memory, "full")));
  EXPECT_EQ(
      code_raised_by([&] { static_cast<void>(pinned.allocate({.bytes = std::size_t{1} << 62}, stream())); }),
      errc::out_of_memory);
  EXPECT_EQ(pinned.held_bytes(), 0U);
}

TEST_F(driver_resources, async_frees_a_block_if_its_stream_can_not_be_marked) {
  static std::string reported;
  const report_sink before =
      set_report_sink([](std::string_view, std::string_view text) noexcept { reported = text; });
  reported.clear();
  async_resource async(driver);
  const saeta::stream foreign(driver); // not an own stream: records events
  EXPECT_CALL(*driver, record_event(_, _))
      .WillOnce(Throw(error(errc::device, "broken")))
      .WillOnce(Throw(error(errc::device, "broken")))
      .WillRepeatedly(DoDefault());
  for (const bool taken_back : {true, false}) {
    void* given = nullptr;
    EXPECT_CALL(*driver, allocate_async(1000, foreign.native_handle()))
        .WillOnce([&](std::size_t bytes, stream_handle) {
          return given = memory_->allocate(bytes, device_alignment);
        });
    EXPECT_CALL(*driver, deallocate_async(_, 1000, foreign.native_handle()))
        .WillOnce([&](void* pointer, std::size_t bytes, stream_handle) {
          EXPECT_EQ(pointer, given);
          return memory_->deallocate(pointer, bytes, device_alignment) && taken_back;
        });
    EXPECT_EQ(code_raised_by([&] { static_cast<void>(async.allocate({.bytes = 1000}, foreign.ref())); }),
              errc::device);
    EXPECT_EQ(async.held_bytes(), 0U);
    EXPECT_EQ(reported, taken_back ? "" : "1000 bytes could not be freed");
  }
  set_report_sink(before);
}

TEST_F(driver_resources, async_keeps_a_block_if_the_wait_for_its_users_fails) {
  async_resource async(driver);
  const block made = async.allocate({.bytes = 1000}, stream());
  finished = false;
  const point last = mark(stream());
  EXPECT_CALL(*driver, wait_event(_, _))
      .WillOnce(Throw(error(errc::device, "broken")))
      .WillRepeatedly(DoDefault());
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  EXPECT_FALSE(async.deallocate(made, {&last, 1}));
  set_report_sink(before);
  EXPECT_EQ(async.held_bytes(), 1000U);
  EXPECT_TRUE(async.deallocate(made, {&last, 1}));
  EXPECT_EQ(async.held_bytes(), 0U);
  finished = true;
}

TEST_F(driver_resources, async_lets_a_bounded_pool_release_unused_memory) {
  EXPECT_CALL(*driver, set_pool_threshold(async_resource::everything));
  async_resource unbounded(driver);
  EXPECT_CALL(*driver, set_pool_threshold(4096));
  async_resource bounded(driver, 4096);
  const block busy = bounded.allocate({.bytes = 1000}, stream());
  const block idle = bounded.allocate({.bytes = 1000}, stream());
  const block kept = unbounded.allocate({.bytes = 1000}, stream());
  finished = false;
  const point last = mark(stream());
  EXPECT_CALL(*driver, synchronize_stream(_)).Times(0);
  EXPECT_TRUE(bounded.deallocate(busy, {&last, 1}));
  finished = true;
  EXPECT_TRUE(unbounded.deallocate(kept, std::span<const point>()));
  EXPECT_CALL(*driver, synchronize_stream(_)).Times(1);
  EXPECT_TRUE(bounded.deallocate(idle, std::span<const point>()));
}

TEST_F(driver_resources, async_trims_the_pool_after_pending_frees) {
  async_resource async(driver);
  {
    const InSequence order;
    EXPECT_CALL(*driver, synchronize_stream(_)).Times(1);
    EXPECT_CALL(*driver, trim_pool(0)).WillOnce(Return(7));
    EXPECT_CALL(*driver, synchronize_stream(_)).WillOnce(Throw(error(errc::device, "broken")));
    EXPECT_CALL(*driver, trim_pool(0)).WillOnce(Return(8));
  }
  EXPECT_EQ(async.trim(), 7U);
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  EXPECT_EQ(async.trim(), 8U);
  set_report_sink(before);
}

} // namespace
} // namespace saeta
