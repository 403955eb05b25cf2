#include "saeta/backend/cuda/waiters.hpp"

#include "saeta/backend/cuda/driver.hpp"

namespace saeta::cuda {

struct waiters::waiter {
  waiter() = default;
  waiter(const waiter&) = delete;
  waiter& operator=(const waiter&) = delete;
  ~waiter() {
    if (event != nullptr) {
      static_cast<void>(check_or_report(cudaEventDestroy(event), "cudaEventDestroy"));
    }
    if (stream != nullptr) {
      static_cast<void>(check_or_report(cudaStreamDestroy(stream), "cudaStreamDestroy"));
    }
  }

  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
};

waiters::waiters() = default;
waiters::~waiters() = default;

void waiters::wait(cudaEvent_t event) {
  auto used = take();
  check(cudaStreamWaitEvent(used->stream, event, 0), "cudaStreamWaitEvent");
  check(cudaEventRecord(used->event, used->stream), "cudaEventRecord");
  check(cudaEventSynchronize(used->event), "cudaEventSynchronize");
  put_back(std::move(used));
}

std::unique_ptr<waiters::waiter> waiters::take() {
  {
    const std::scoped_lock lock(mutex_);
    if (!free_.empty()) {
      auto reused = std::move(free_.back());
      free_.pop_back();
      return reused;
    }
  }
  auto result = std::make_unique<waiter>();
  check(cudaStreamCreateWithFlags(&result->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaEventCreateWithFlags(&result->event, cudaEventDisableTiming | cudaEventBlockingSync),
        "cudaEventCreateWithFlags");
  return result;
}

void waiters::put_back(std::unique_ptr<waiter> unused) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(unused));
}

} // namespace saeta::cuda
