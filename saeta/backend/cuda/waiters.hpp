// Waits for events without spinning, although the events were not created for blocking waits.
//
// What      An event that can block the host slows down every record and query of it, and few events are ever
//           waited for. So events are plain, and a wait records a second, blocking event after the first on a
//           stream of its own. These pairs of stream and event are kept and reused.
// Owner     This object owns the pairs and must be destroyed in the context that it was used in.
// Thread    Any. Each wait uses a pair of its own, so waits do not delay each other.
// Failure   error device. The pair is destroyed.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

namespace saeta::cuda {

class waiters {
public:
  waiters();
  waiters(const waiters&) = delete;
  waiters& operator=(const waiters&) = delete;
  ~waiters();

  /// Blocks the calling thread until the event is complete. The event's context must be current.
  void wait(cudaEvent_t event);

private:
  struct waiter;

  std::unique_ptr<waiter> take();
  void put_back(std::unique_ptr<waiter> unused);

  std::mutex mutex_;
  std::vector<std::unique_ptr<waiter>> free_;
};

} // namespace saeta::cuda
