// Peer access (saeta/device/backend.hpp): work of one device on memory of another one.

#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"
#include "saeta/device/stream.hpp"

#include <gmock/gmock.h>

namespace saeta::conformance {
namespace {

using bytes = std::vector<std::uint8_t>;

class reachable_devices : public backend_test {};

class peer_access : public backend_test {
protected:
  [[nodiscard]] stream_ref work() const { return work_.ref(); }

  /// Fills memory of the second device on a stream of the first device.
  void fill_from_here(void* target, std::uint8_t value, std::size_t size, stream_ref owner) const {
    const event ready(second_);
    ready.ref().record(owner);
    work().wait(ready.ref());
    device().fill(target, value, size, work().native_handle());
    const event done(shared_device());
    done.ref().record(work());
    owner.wait(done.ref());
  }

  void SetUp() override {
    second_ = second_device();
    if (!second_) {
      GTEST_SKIP() << one_device_alone;
    }
    if (!device().can_access_peer(*second_)) {
      GTEST_SKIP() << "these two devices have no peer access";
    }
  }

  std::shared_ptr<backend> second_;

private:
  stream work_{shared_device()};
};

TEST_P(reachable_devices, include_the_device_itself) {
  const auto other_library = GetParam().make();
  EXPECT_TRUE(device().can_access_peer(device()));
  EXPECT_TRUE(device().can_access_peer(*other_library));
  device().enable_peer_access(device());
  device().enable_peer_access(*other_library);
}

TEST_P(peer_access, allows_work_on_allocations_of_another_device) {
  const stream owner(second_);
  const device_memory target(owner.ref(), bytes(4096, 1));
  device().enable_peer_access(*second_);
  device().enable_peer_access(*second_); // a second call is allowed
  fill_from_here(target.data() + 96, 7, 4000, owner.ref());

  bytes expected(4096, 7);
  std::fill_n(expected.begin(), 96, std::uint8_t{1});
  EXPECT_EQ(target.download(), expected);
}

TEST_P(peer_access, allows_work_on_the_pool_of_another_device) {
  const stream owner(second_);
  const stream_handle handle = owner.ref().native_handle();
  void* const before = second_->allocate_async(4096, handle);
  device().enable_peer_access(*second_);
  void* const after = second_->allocate_async(4096, handle);
  for (void* const target : {before, after}) {
    fill_from_here(target, 7, 4096, owner.ref());
    bytes found(4096);
    second_->copy(found.data(), target, found.size(), copy_kind::device_to_host, handle);
    second_->synchronize_stream(handle);
    EXPECT_EQ(found, bytes(4096, 7));
    EXPECT_TRUE(second_->deallocate_async(target, 4096, handle));
  }
  second_->synchronize_stream(handle);
}

TEST_P(peer_access, is_not_needed_by_copies) {
  const stream owner(second_);
  const device_memory there(owner.ref(), bytes(4096, 5));
  const device_memory here(work(), bytes(4096, 1));
  device().copy(here.data(), there.data(), here.size(), copy_kind::device_to_device, work().native_handle());
  EXPECT_EQ(here.download(), bytes(4096, 5));
}

TEST_P(reachable_devices, exclude_those_of_another_kind) {
  const auto other =
      GetParam().name == "host" ? std::shared_ptr<backend>(sim::device::create()) : make_host_backend();
  EXPECT_FALSE(device().can_access_peer(*other));
  EXPECT_FALSE(other->can_access_peer(device()));
  try {
    device().enable_peer_access(*other);
    FAIL() << "nothing was thrown";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::unsupported);
    EXPECT_THAT(e.message(), ::testing::HasSubstr(to_string(device().device())));
    EXPECT_THAT(e.message(), ::testing::HasSubstr(to_string(other->device())));
  }
}

SAETA_CONFORMANCE_SUITE(peer_access);
SAETA_CONFORMANCE_SUITE(reachable_devices);

} // namespace
} // namespace saeta::conformance
