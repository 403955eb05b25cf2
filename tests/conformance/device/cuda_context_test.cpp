// The CUDA backend does not disturb other users of CUDA in the process: it changes neither the current
// context of their threads nor their graph captures.

#include "conformance/harness/backends.hpp"
#include "conformance/harness/cuda_driver.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/device/stream.hpp"

#include <algorithm>
#include <thread>

namespace saeta::conformance {
namespace {

using bytes = std::vector<std::uint8_t>;

/// Declarations of the driver API, as in cuda.h.
namespace driver {

constexpr int success = 0;
constexpr int capture_mode_global = 0;

int get_current(void** context) {
  static const auto call = cuda_driver_call<int (*)(void**)>("cuCtxGetCurrent");
  return call(context);
}
int begin_capture(stream_handle stream) {
  static const auto call = cuda_driver_call<int (*)(void*, int)>("cuStreamBeginCapture_v2");
  return call(reinterpret_cast<void*>(stream), capture_mode_global);
}
int end_capture(stream_handle stream, void** graph) {
  static const auto call = cuda_driver_call<int (*)(void*, void**)>("cuStreamEndCapture");
  return call(reinterpret_cast<void*>(stream), graph);
}
int destroy_graph(void* graph) {
  static const auto call = cuda_driver_call<int (*)(void*)>("cuGraphDestroy");
  return call(graph);
}

} // namespace driver

class cuda_context : public ::testing::Test {
protected:
  void SetUp() override {
    const auto& all = backends();
    const auto found =
        std::find_if(all.begin(), all.end(), [](const auto& entry) { return entry.name == "cuda"; });
    if (found == all.end()) {
      GTEST_SKIP() << "cuda can't be run here";
    }
    device_ = found->make();
  }

  [[nodiscard]] backend& device() const { return *device_; }
  [[nodiscard]] const std::shared_ptr<backend>& shared_device() const { return device_; }

private:
  std::shared_ptr<backend> device_;
};

TEST_F(cuda_context, calls_leave_no_current_context_on_a_thread) {
  std::thread([&] {
    void* context = nullptr;
    ASSERT_EQ(driver::get_current(&context), driver::success);
    ASSERT_EQ(context, nullptr);

    const stream work(shared_device());
    {
      const device_memory memory(work.ref(), bytes(1000, 0xff));
      const device_memory count(work.ref(), bytes(8, 0));
      device().kernels().count_nulls(work.ref().native_handle(), memory.data(), 0, 8000,
                                     count.as<std::int64_t>());
      EXPECT_EQ(count.download(), bytes(8, 0));
    }
    static_cast<void>(device().properties());

    ASSERT_EQ(driver::get_current(&context), driver::success);
    EXPECT_EQ(context, nullptr);
  }).join();
}

TEST_F(cuda_context, queries_and_allocations_do_not_invalidate_a_capture) {
  const cuda_current_context current;
  const stream captured(shared_device());
  const stream work(shared_device());
  const event recorded(shared_device());
  const stream_handle capturing = captured.ref().native_handle();
  ASSERT_EQ(driver::begin_capture(capturing), driver::success);

  recorded.ref().record(work.ref());
  recorded.ref().synchronize();
  EXPECT_TRUE(recorded.ref().complete());
  EXPECT_TRUE(work.ref().idle());
  void* const memory = device().allocate(1000, 0);
  void* const pinned = device().allocate_pinned(1000);

  void* graph = nullptr;
  EXPECT_EQ(driver::end_capture(capturing, &graph), driver::success);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(driver::destroy_graph(graph), driver::success);
  EXPECT_TRUE(device().deallocate(memory, 1000, 0));
  EXPECT_TRUE(device().deallocate_pinned(pinned, 1000));
}

TEST_F(cuda_context, a_context_wide_event_is_refused_during_a_capture_and_recorded_after_it) {
  const cuda_current_context current;
  const stream captured(shared_device());
  const event everything(shared_device());
  const event_handle handle = everything.ref().native_handle();
  const stream_handle capturing = captured.ref().native_handle();
  ASSERT_EQ(driver::begin_capture(capturing), driver::success);

  EXPECT_EQ(device().record_context(handle), fence_outcome::refused);

  void* graph = nullptr;
  if (driver::end_capture(capturing, &graph) == driver::success) { // may have been invalidated
    EXPECT_EQ(driver::destroy_graph(graph), driver::success);
  }
  EXPECT_EQ(device().record_context(handle), fence_outcome::recorded);
  everything.ref().synchronize();
  EXPECT_TRUE(everything.ref().complete());
}

} // namespace
} // namespace saeta::conformance
