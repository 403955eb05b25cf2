// Memory of the cache that passes from one stream to another: without a wait where that is possible.

#include "saeta/resource/cache/caching_resource.hpp"
#include "unit/resource/cache_over_driver.hpp"

#include <gtest/gtest.h>

namespace saeta {
namespace {

using ::testing::_;
using ::testing::Return;

using unit::large;

class cache_streams : public unit::cache_over_driver {};

TEST_F(cache_streams, takes_an_unused_block_of_another_stream_without_a_wait) {
  const block pending = get(large, first());
  const block passed = get(large, first());
  put(passed, first());
  synchronize(mark(first()));
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  put(pending, first());
  EXPECT_CALL(*driver_, wait_event(_, _)).Times(0);
  const block taken = get(large, second());
  EXPECT_EQ(taken.pointer, passed.pointer);
  put(taken, second());
  ::testing::Mock::VerifyAndClearExpectations(driver_.get());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true));
}

TEST_F(cache_streams, adds_slabs_rather_than_wait_up_to_a_size) {
  caching_options options;
  options.wait_above = 2 * large;
  make(options);
  put(get(large, first()), first());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(false));
  const block added = get(large, second());
  EXPECT_EQ(made_->statistics().slabs, 2U);
  EXPECT_EQ(made_->statistics().steals, 0U);
  const block waited = get(large, second());
  EXPECT_EQ(made_->statistics().slabs, 2U);
  EXPECT_EQ(made_->statistics().steals, 1U);
  put(waited, second());
  put(added, second());
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true));
}

} // namespace
} // namespace saeta
