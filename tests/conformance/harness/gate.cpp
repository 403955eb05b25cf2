#include "conformance/harness/gate.hpp"

#include "conformance/harness/cuda_driver.hpp"
#include "saeta/base/text.hpp"

#include <latch>

namespace saeta::conformance {
namespace {

using host_function = void (*)(void*);
using launch_host_function = int (*)(void* stream, host_function function, void* argument);

class cuda_gate final : public gate {
public:
  explicit cuda_gate(stream_handle stream) {
    static const auto launch = cuda_driver_call<launch_host_function>("cuLaunchHostFunc");
    // The host function shares ownership of the latch, because it may still be in wait() when the gate is
    // destroyed.
    auto shared = std::make_unique<std::shared_ptr<std::latch>>(latch_);
    const auto wait = [](void* argument) {
      const std::unique_ptr<std::shared_ptr<std::latch>> held(
          static_cast<std::shared_ptr<std::latch>*>(argument));
      (*held)->wait();
    };
    const cuda_current_context current(stream);
    const int status = launch(reinterpret_cast<void*>(stream), wait, shared.get());
    if (status != 0) {
      throw error(errc::device, concat("cuLaunchHostFunc: CUDA error ", status));
    }
    static_cast<void>(shared.release());
  }
  ~cuda_gate() override { cuda_gate::open(); }

  void open() override {
    if (!latch_->try_wait()) {
      latch_->count_down();
    }
  }

private:
  std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
};

} // namespace

std::unique_ptr<gate> close_cuda_gate(stream_handle stream) { return std::make_unique<cuda_gate>(stream); }

} // namespace saeta::conformance
