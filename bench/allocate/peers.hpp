// Who is measured: one function for each library, in a source of its own.
#pragma once

#include "allocate/peer.hpp"
#include "support/result_file.hpp"

#include <memory>
#include <string>
#include <vector>

namespace saeta::bench {

struct peer_list {
  std::vector<std::unique_ptr<peer>> peers;
  version_map versions;
  std::vector<std::string> missing; ///< who could have been measured, and why it was not
};

/// The stack of a context as users get it, its cache alone, buffers on top of it, and the backend's own
/// allocation, which has no limit.
void add_saeta(peer_list& to, const std::shared_ptr<backend>& device);

/// The C library, and jemalloc and mimalloc where they are installed. None has a limit.
void add_host_allocators(peer_list& to);

/// RMM's pool and arena over memory of the size of the budget, each also below a limiting adaptor. Needs CUDA
/// and a build that has found RMM.
void add_rmm(peer_list& to);

/// torch's caching allocator with the budget as its share of the device. Needs CUDA and a build with torch.
void add_torch(peer_list& to, const backend& device);

} // namespace saeta::bench
