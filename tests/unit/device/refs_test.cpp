// Borrowing and owning handles: stream_ref / stream and event_ref / event.

#include "saeta/base/error.hpp"
#include "saeta/device/stream.hpp"
#include "unit/device/mock_backend.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

namespace saeta {
namespace {

using ::testing::InSequence;
using ::testing::Return;
using ::testing::StrictMock;
using ::testing::Throw;

constexpr stream_handle stream_five{5};
constexpr event_handle event_seven{7};

/// Uses a strict mock, so that unexpected calls, such as a second destruction, fail the test.
class refs : public ::testing::Test {
protected:
  using mock = StrictMock<unit::mock_backend>;

  void expect_created() { EXPECT_CALL(*device_, create_stream()).WillOnce(Return(stream_five)); }
  void expect_destroyed() { EXPECT_CALL(*device_, destroy_stream(stream_five)).Times(1); }
  void expect_event_created() { EXPECT_CALL(*device_, create_event()).WillOnce(Return(event_seven)); }
  void expect_event_destroyed() { EXPECT_CALL(*device_, destroy_event(event_seven)).Times(1); }

  std::shared_ptr<mock> device_ = std::make_shared<mock>();
};

static_assert(!std::is_constructible_v<stream_ref, backend&, int>, "0 is not a stream");
static_assert(!std::is_constructible_v<stream_ref, backend&, std::nullptr_t>);
static_assert(!std::is_copy_constructible_v<stream> && std::is_nothrow_move_constructible_v<stream>);
static_assert(!std::is_copy_assignable_v<event> && std::is_nothrow_move_assignable_v<event>);
static_assert(std::is_trivially_copyable_v<stream_ref> && std::is_trivially_copyable_v<event_ref>);
static_assert(!std::is_convertible_v<event_handle, stream_handle>);

TEST_F(refs, a_stream_destroys_its_handle_once) {
  expect_created();
  expect_destroyed();
  stream first(device_);
  EXPECT_FALSE(first.empty());
  stream second(std::move(first));
  EXPECT_TRUE(first.empty()); // NOLINT(bugprone-use-after-move): that it is empty is the promise
  EXPECT_FALSE(second.empty());
}

TEST_F(refs, move_assignment_destroys_the_old_handle_with_the_source) {
  constexpr stream_handle stream_six{6};
  EXPECT_CALL(*device_, create_stream()).WillOnce(Return(stream_five)).WillOnce(Return(stream_six));
  expect_destroyed();
  EXPECT_CALL(*device_, destroy_stream(stream_six)).Times(1);
  EXPECT_CALL(*device_, stream_id(stream_six)).WillOnce(Return(66));
  stream target(device_);
  stream source(device_);
  target = std::move(source);
  EXPECT_EQ(target.ref().native_handle(), stream_six);
}

TEST_F(refs, a_released_stream_is_the_callers_to_destroy) {
  expect_created();
  stream owned(device_);
  EXPECT_EQ(owned.release(), stream_five);
  EXPECT_TRUE(owned.empty());
}

TEST_F(refs, an_existing_handle_can_be_adopted) {
  expect_destroyed();
  const stream taken = stream::from_native_handle(device_, stream_five);
  EXPECT_FALSE(taken.empty());
}

TEST_F(refs, a_failed_creation_destroys_nothing) {
  EXPECT_CALL(*device_, create_stream()).WillOnce(Throw(error(errc::device, "no more streams")));
  EXPECT_CALL(*device_, create_event()).WillOnce(Throw(error(errc::device, "no more events")));
  EXPECT_THROW(stream{device_}, error);
  EXPECT_THROW(event{device_}, error);
}

TEST_F(refs, a_ref_queries_its_identity_once) {
  EXPECT_CALL(*device_, stream_id(stream_five)).WillOnce(Return(55));
  const stream_ref borrowed(*device_, stream_five);
  EXPECT_EQ(borrowed.id(), 55u);
  EXPECT_EQ(borrowed.id(), 55u);
  EXPECT_EQ(borrowed.native_handle(), stream_five);
  EXPECT_EQ(&borrowed.owner(), device_.get());
}

TEST_F(refs, streams_are_compared_by_identity_not_by_handle) {
  EXPECT_CALL(*device_, stream_id(stream_five))
      .WillOnce(Return(55))
      .WillOnce(Return(55))
      .WillOnce(Return(56));
  const stream_ref first(*device_, stream_five);
  const stream_ref same(*device_, stream_five);
  const stream_ref reused_handle(*device_, stream_five);
  EXPECT_EQ(first, same);
  EXPECT_NE(first, reused_handle);

  mock other;
  EXPECT_CALL(other, stream_id(stream_five)).WillOnce(Return(55));
  EXPECT_NE(first, stream_ref(other, stream_five)) << "the same number on another device";
}

TEST_F(refs, an_owner_keeps_its_backend) {
  expect_created();
  expect_destroyed();
  auto owned = std::make_unique<stream>(device_);
  const std::weak_ptr<mock> watched = device_;
  device_.reset();
  EXPECT_FALSE(watched.expired());
  owned.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(refs, an_event_destroys_its_handle_once) {
  expect_event_created();
  expect_event_destroyed();
  event first(device_);
  event second(std::move(first));
  EXPECT_TRUE(first.empty()); // NOLINT(bugprone-use-after-move): that it is empty is the promise
  event third = event::from_native_handle(device_, second.release());
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(third.ref().native_handle(), event_seven);
}

TEST_F(refs, event_and_stream_calls_reach_the_backend_with_their_handles) {
  EXPECT_CALL(*device_, stream_id(stream_five)).WillOnce(Return(55));
  const stream_ref work(*device_, stream_five);
  const event_ref done(*device_, event_seven);
  const InSequence in_order;
  EXPECT_CALL(*device_, record_event(event_seven, stream_five));
  EXPECT_CALL(*device_, wait_event(stream_five, event_seven));
  EXPECT_CALL(*device_, event_complete(event_seven)).WillOnce(Return(false));
  EXPECT_CALL(*device_, stream_idle(stream_five)).WillOnce(Return(true));
  EXPECT_CALL(*device_, synchronize_event(event_seven));

  done.record(work);
  work.wait(done);
  EXPECT_FALSE(done.complete());
  EXPECT_TRUE(work.idle());
  done.synchronize();
}

} // namespace
} // namespace saeta
