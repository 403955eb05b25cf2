// The ordering state of a storage: which points each kind of access has to wait for. The points belong to no
// stream.
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/order/ordering.hpp"
#include "unit/observe/counted_new.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace saeta {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// Returns the first point of a timeline.
point of_timeline(std::uint64_t number) { return {timeline_id{number}, 1}; }

std::vector<point> points_of(const requirement& needed) {
  return {needed.points.all().begin(), needed.points.all().end()};
}

class ordering_state_test : public ::testing::Test {
protected:
  /// Begins and ends a use on this thread. Returns what it has to wait for.
  requirement use(access mode, point done) {
    requirement needed;
    state.acquire(mode, needed, "rows");
    state.end(mode, std::this_thread::get_id(), done);
    return needed;
  }
  requirement find_dependencies(access mode) { return state.find_dependencies(mode, "rows"); }
  /// Returns the points that an access would have to wait for.
  std::vector<point> awaited(access mode) { return points_of(find_dependencies(mode)); }

  const point written = of_timeline(1);
  const point read = of_timeline(2);
  const point read_beside = of_timeline(3);
  ordering_state state;
};

TEST_F(ordering_state_test, a_read_waits_for_writes_and_a_write_for_all_accesses) {
  EXPECT_THAT(points_of(use(access::write, written)), IsEmpty());
  EXPECT_THAT(points_of(use(access::read, read)), UnorderedElementsAre(written));
  EXPECT_THAT(points_of(use(access::read, read_beside)), UnorderedElementsAre(written));
  for (int i = 0; i < 2; ++i) { // a query changes nothing
    EXPECT_THAT(awaited(access::read), UnorderedElementsAre(written));
    EXPECT_THAT(awaited(access::write), UnorderedElementsAre(written, read, read_beside));
    EXPECT_THAT(awaited(access::read_write), UnorderedElementsAre(written, read, read_beside));
  }
  const point rewritten = of_timeline(4);
  EXPECT_THAT(points_of(use(access::read_write, rewritten)),
              UnorderedElementsAre(written, read, read_beside));
  EXPECT_THAT(awaited(access::write), UnorderedElementsAre(rewritten))
      << "the new write stands behind the rest";
}

TEST_F(ordering_state_test, a_use_without_a_point_adds_no_dependency) {
  use(access::write, written);
  use(access::read, {});
  EXPECT_THAT(awaited(access::write), UnorderedElementsAre(written));
  use(access::write, {});
  EXPECT_THAT(awaited(access::write), IsEmpty()) << "the stream was synchronised, so all before has passed";
}

TEST_F(ordering_state_test, a_cancelled_use_restores_the_state) {
  use(access::write, written);
  use(access::read, read);
  requirement needed;
  state.acquire(access::write, needed, "rows");
  state.give_up(access::write, needed);
  EXPECT_THAT(awaited(access::read), UnorderedElementsAre(written, read));
  use(access::write, written); // the thread no longer holds the storage
}

TEST_F(ordering_state_test, bounds_the_reads_by_making_new_readers_wait_for_the_oldest) {
  constexpr std::uint64_t readers = 3 * ordering_state::max_reads;
  for (std::uint64_t i = 0; i < readers; ++i) {
    const requirement needed = use(access::read, of_timeline(100 + i));
    if (i < ordering_state::max_reads) {
      EXPECT_THAT(points_of(needed), IsEmpty());
    } else {
      EXPECT_THAT(points_of(needed), UnorderedElementsAre(of_timeline(100 + i - ordering_state::max_reads)));
    }
  }
  const std::vector<point> left = awaited(access::write);
  ASSERT_EQ(left.size(), ordering_state::max_reads);
  for (std::uint64_t i = 0; i < ordering_state::max_reads; ++i) {
    EXPECT_EQ(left[i], of_timeline(100 + readers - ordering_state::max_reads + i));
  }
}

TEST_F(ordering_state_test, an_external_write_is_added_to_the_others) {
  use(access::write, written);
  const point lent = of_timeline(4);
  state.add_write(lent);
  EXPECT_THAT(awaited(access::read), UnorderedElementsAre(written, lent));
}

TEST_F(ordering_state_test, a_thread_can_not_acquire_a_storage_twice) {
  const auto code_of = [&](auto ask) {
    try {
      ask();
    } catch (const error& refused) {
      EXPECT_THAT(refused.what(), HasSubstr("buffer 'rows' is already in use by an open token"));
      return std::optional(refused.code());
    }
    return std::optional<errc>();
  };
  requirement needed;
  const auto self = std::this_thread::get_id();
  state.acquire(access::read, needed, "rows");
  state.acquire(access::read, needed, "rows");
  EXPECT_EQ(code_of([&] { state.acquire(access::write, needed, "rows"); }), errc::busy);
  EXPECT_NO_THROW(find_dependencies(access::write));
  state.end(access::read, self, {});
  EXPECT_EQ(code_of([&] { state.acquire(access::read_write, needed, "rows"); }), errc::busy);
  state.end(access::read, self, {});
  state.acquire(access::write, needed, "rows");
  EXPECT_EQ(code_of([&] { state.acquire(access::read, needed, "rows"); }), errc::busy);
  EXPECT_EQ(code_of([&] { state.acquire(access::write, needed, "rows"); }), errc::busy);
  EXPECT_EQ(code_of([&] { find_dependencies(access::read); }), errc::busy);
  state.end(access::write, self, {});
  EXPECT_NO_THROW(use(access::write, {}));
}

TEST_F(ordering_state_test, waits_until_a_write_of_another_thread_has_its_point) {
  for (const bool hand_over : {false, true}) {
    requirement needed;
    state.acquire(access::write, needed, "rows");
    std::promise<void> asks;
    auto seen = std::async(std::launch::async, [&] {
      asks.set_value();
      return points_of(hand_over ? find_dependencies(access::read) : use(access::read, {}));
    });
    asks.get_future().wait();
    std::this_thread::yield();
    state.end(access::write, std::this_thread::get_id(), written);
    EXPECT_THAT(seen.get(), UnorderedElementsAre(written));
  }
}

TEST_F(ordering_state_test, a_write_waits_until_a_read_of_another_thread_has_its_point) {
  requirement needed;
  state.acquire(access::read, needed, "rows");
  std::promise<void> asks;
  auto seen = std::async(std::launch::async, [&] {
    asks.set_value();
    return points_of(use(access::write, {}));
  });
  asks.get_future().wait();
  std::this_thread::yield();
  state.end(access::read, std::this_thread::get_id(), read);
  EXPECT_THAT(seen.get(), UnorderedElementsAre(read));
}

TEST_F(ordering_state_test, an_export_is_unknown_work_for_conflicting_accesses) {
  state.begin_export(access::read);
  EXPECT_FALSE(find_dependencies(access::read).unknown);
  EXPECT_TRUE(find_dependencies(access::write).unknown);
  EXPECT_TRUE(find_dependencies(access::read_write).unknown);
  EXPECT_FALSE(use(access::read, {}).unknown);
  EXPECT_TRUE(use(access::write, {}).unknown);
  state.begin_export(access::write);
  EXPECT_TRUE(find_dependencies(access::read).unknown);
  EXPECT_TRUE(find_dependencies(access::write).unknown);
  state.end_export(access::write, {});
  EXPECT_FALSE(find_dependencies(access::read).unknown);
  EXPECT_TRUE(find_dependencies(access::write).unknown) << "the reader still has its view";
  state.end_export(access::read, {});
  EXPECT_FALSE(find_dependencies(access::write).unknown);
}

TEST_F(ordering_state_test, an_export_that_ends_with_points_leaves_them) {
  point_set last;
  last.add(read);
  state.begin_export(access::read);
  state.end_export(access::read, last);
  EXPECT_THAT(awaited(access::read), IsEmpty());
  EXPECT_THAT(awaited(access::write), UnorderedElementsAre(read));
  state.begin_export(access::write);
  last.add(written);
  state.end_export(access::write, last);
  EXPECT_THAT(awaited(access::read), UnorderedElementsAre(read, written));
}

TEST_F(ordering_state_test, unknown_work_is_settled_by_a_point_over_all_work) {
  state.begin_export(access::read);
  state.end_export(access::read);
  EXPECT_FALSE(find_dependencies(access::read).unknown);
  const handover before_writing = state.find_dependencies(access::write, "rows");
  EXPECT_TRUE(before_writing.unknown);
  point_set everything;
  everything.add(of_timeline(9));
  state.settle(access::read, everything, before_writing.seen);
  EXPECT_TRUE(find_dependencies(access::write).unknown) << "a reader has settled writes alone";
  state.settle(access::write, everything, before_writing.seen);
  EXPECT_FALSE(find_dependencies(access::write).unknown);
  EXPECT_THAT(awaited(access::read), UnorderedElementsAre(of_timeline(9)));

  state.begin_export(access::write);
  state.end_export(access::write);
  const handover before_reading = state.find_dependencies(access::read, "rows");
  EXPECT_TRUE(before_reading.unknown);
  state.settle(access::read, everything, before_reading.seen);
  EXPECT_FALSE(find_dependencies(access::write).unknown);
}

TEST_F(ordering_state_test, later_unknown_work_is_not_settled_by_an_earlier_point) {
  state.begin_export(access::read);
  state.begin_export(access::read);
  state.end_export(access::read);
  const handover seen = state.find_dependencies(access::write, "rows");
  state.end_export(access::read);
  state.settle(access::write, {}, seen.seen);
  EXPECT_TRUE(find_dependencies(access::write).unknown);
  requirement needed;
  const std::uint32_t now = state.acquire(access::write, needed, "rows");
  EXPECT_TRUE(needed.unknown);
  state.settle(access::write, {}, now);
  state.end(access::write, std::this_thread::get_id(), {});
  EXPECT_FALSE(find_dependencies(access::write).unknown);
}

TEST_F(ordering_state_test, a_use_without_a_recorded_end_is_unknown_work) {
  requirement needed;
  state.acquire(access::read, needed, "rows");
  state.end_unknown(access::read, std::this_thread::get_id());
  EXPECT_FALSE(find_dependencies(access::read).unknown);
  EXPECT_TRUE(find_dependencies(access::write).unknown);
  state.acquire(access::write, needed, "rows"); // the storage is not held
  state.end_unknown(access::write, std::this_thread::get_id());
  EXPECT_TRUE(find_dependencies(access::read).unknown);
}

TEST_F(ordering_state_test, several_storages_share_one_requirement) {
  use(access::write, written);
  requirement needed;
  needed.points.add(read);
  needed.unknown = true;
  state.acquire(access::read, needed, "rows");
  EXPECT_THAT(points_of(needed), UnorderedElementsAre(read, written));
  EXPECT_TRUE(needed.unknown) << "another storage needs it";
  state.end(access::read, std::this_thread::get_id(), {});
}

TEST_F(ordering_state_test, the_release_waits_for_everything) {
  use(access::write, written);
  use(access::read, read);
  state.begin_export(access::read);
  state.end_export(access::read);
  const requirement all = state.take_all();
  EXPECT_TRUE(all.unknown);
  EXPECT_THAT(points_of(all), UnorderedElementsAre(written, read));
}

/// A state that can't store a further point, because allocations fail.
class full_ordering_state : public ordering_state_test {
protected:
  full_ordering_state() {
    requirement needed;
    state.acquire(access::read, needed, "rows"); // reserves space for a reader
    state.end(access::read, std::this_thread::get_id(), {});
    for (std::uint64_t i = 1; i <= 3; ++i) { // more than fit without an allocation
      state.add_write(of_timeline(i));
    }
  }
  ~full_ordering_state() override { set_report_sink(before_); }

private:
  report_sink before_ = set_report_sink([](std::string_view, std::string_view) noexcept {});
};

TEST_F(full_ordering_state, a_failed_acquire_holds_nothing) {
  for (const access mode : {access::read, access::write}) {
    requirement needed;
    {
      const unit::failing_new no_memory(0);
      EXPECT_THROW(state.acquire(mode, needed, "rows"), std::bad_alloc);
      EXPECT_THROW(static_cast<void>(state.find_dependencies(mode, "rows")), std::bad_alloc);
    }
    EXPECT_THAT(awaited(access::read), UnorderedElementsAre(of_timeline(1), of_timeline(2), of_timeline(3)));
    needed = {};
    state.acquire(access::write, needed, "rows");
    EXPECT_EQ(needed.points.size(), 3U);
    state.give_up(access::write, needed);
  }
}

TEST_F(full_ordering_state, a_read_whose_point_could_not_be_stored_is_unknown_work) {
  use(access::read, of_timeline(4));
  use(access::read, of_timeline(5));
  requirement needed;
  state.acquire(access::read, needed, "rows");
  {
    const unit::failing_new no_memory(0);
    state.end(access::read, std::this_thread::get_id(), of_timeline(6));
  }
  EXPECT_FALSE(find_dependencies(access::read).unknown);
  EXPECT_TRUE(find_dependencies(access::write).unknown);
}

TEST_F(full_ordering_state, a_release_waits_for_points_that_could_not_be_stored) {
  ordering_state few;
  few.add_write(of_timeline(1));
  few.add_write(of_timeline(2));
  requirement read_by;
  few.acquire(access::read, read_by, "rows");
  few.end(access::read, std::this_thread::get_id(), of_timeline(3));
  const unit::failing_new no_memory(0);
  const requirement all = few.take_all();
  EXPECT_TRUE(all.unknown);
  EXPECT_EQ(all.points.size(), 2U);
}

} // namespace
} // namespace saeta
