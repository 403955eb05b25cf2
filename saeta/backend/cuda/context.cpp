#include "saeta/backend/cuda/context.hpp"

#include "saeta/backend/cuda/driver.hpp"

#include <array>
#include <atomic>
#include <mutex>

namespace saeta::cuda {
namespace {

constexpr std::size_t most_devices = 64;

CUcontext retain_primary_context(std::int32_t ordinal) {
  // The runtime initializes the device first, so that it knows the context and never finds it half
  // initialized.
  check(cudaInitDevice(ordinal, 0, 0), "cudaInitDevice", ": device ", ordinal);
  CUdevice device = 0;
  check(driver().device_get(&device, ordinal), "cuDeviceGet", ": device ", ordinal);
  CUcontext context = nullptr;
  check(driver().primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain", ": device ", ordinal);
  return context;
}

} // namespace

CUcontext primary_context(std::int32_t ordinal) {
  static std::array<std::atomic<CUcontext>, most_devices> contexts{};
  static std::mutex creation;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= contexts.size()) {
    throw error(errc::device,
                concat("cuda:", ordinal, " is not a device: ordinals range from 0 to ", most_devices - 1));
  }
  auto& slot = contexts[static_cast<std::size_t>(ordinal)];
  if (CUcontext known = slot.load(std::memory_order_acquire); known != nullptr) {
    return known;
  }
  const std::scoped_lock lock(creation);
  if (slot.load(std::memory_order_relaxed) == nullptr) {
    slot.store(retain_primary_context(ordinal), std::memory_order_release);
  }
  return slot.load(std::memory_order_relaxed);
}

// Once a constructor's calls have succeeded, its destructor's calls fail only if the process is ending.

current_context::current_context(CUcontext context) noexcept {
  const driver_calls& calls = driver(); // can't throw: looked up when `context` was created
  CUcontext current = nullptr;
  status_ = calls.context_get_current(&current);
  if (status_ == CUDA_SUCCESS && current != context) {
    status_ = calls.context_push_current(context);
    pushed_ = status_ == CUDA_SUCCESS;
  }
}

current_context::~current_context() {
  if (pushed_) {
    CUcontext popped = nullptr;
    static_cast<void>(driver().context_pop_current(&popped));
  }
}

context_scope::context_scope(CUcontext context) noexcept : current_context(context) {
  if (status() == CUDA_SUCCESS) {
    exchanged_ = driver().exchange_capture_mode(&mode_) == CUDA_SUCCESS;
  }
}

context_scope::~context_scope() {
  if (exchanged_) {
    static_cast<void>(driver().exchange_capture_mode(&mode_));
  }
}

active_context::active_context(CUcontext context) : context_scope(context) {
  check(status(), "cuCtxPushCurrent");
}

} // namespace saeta::cuda
