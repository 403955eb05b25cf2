// Waiting for an event without spinning, for events that were not made for it.
//
// What      An event that can block the host slows down every record and query of it, and hardly any event is ever
//           waited for. So events are plain, and a wait puts a second, blocking event behind the first on a stream of
//           its own; those pairs are kept and used again.
// Owner     The pairs belong to the pool, which must be destroyed in the context that it was used in.
// Thread    Any; each wait has a pair for itself, so that no wait is held up by another.
// Failure   error device; nothing is kept of the pair.
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

  /// Blocks the calling thread until the event is complete. The event's context is current.
  void wait(cudaEvent_t event);

private:
  struct waiter;

  std::unique_ptr<waiter> take();
  void put_back(std::unique_ptr<waiter> unused);

  std::mutex mutex_;
  std::vector<std::unique_ptr<waiter>> free_;
};

} // namespace saeta::cuda
