#include "unit/resource/cache_over_driver.hpp"

namespace saeta::unit {

using ::testing::_;
using ::testing::Return;

cache_over_driver::cache_over_driver() {
  ON_CALL(*driver_, device()).WillByDefault(Return(device_id{device_kind::cuda, 0}));
  ON_CALL(*driver_, create_stream()).WillByDefault([this] { return memory_->create_stream(); });
  ON_CALL(*driver_, stream_id(_)).WillByDefault([](stream_handle s) {
    return static_cast<std::uint64_t>(s);
  });
  ON_CALL(*driver_, create_event()).WillByDefault([this] { return memory_->create_event(); });
  ON_CALL(*driver_, event_complete(_)).WillByDefault(Return(true));
  ON_CALL(*driver_, record_context(_)).WillByDefault(Return(fence_outcome::recorded));
  ON_CALL(*driver_, allocate_async(_, _)).WillByDefault([this](std::size_t bytes, stream_handle) {
    return memory_->allocate(bytes, device_alignment);
  });
  ON_CALL(*driver_, deallocate_async(_, _, _))
      .WillByDefault([this](void* pointer, std::size_t bytes, stream_handle) {
        return memory_->deallocate(pointer, bytes, device_alignment);
      });
  make({});
}

} // namespace saeta::unit
