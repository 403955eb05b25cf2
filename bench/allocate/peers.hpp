// The peers of bench/allocate: one function for each library, in a source of its own.
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
  std::vector<std::string> missing; ///< the peers that are not measured, and why
};

/// Saeta at four levels: the default resource stack of a context, its cache alone, buffers from that stack,
/// and the backend's plain allocation, which has no limit.
void add_saeta(peer_list& to, const std::shared_ptr<backend>& device);

/// The C library, and jemalloc and mimalloc where they are installed. None has a limit.
void add_host_allocators(peer_list& to);

/// RMM's pool and arena, as large as the budget, each with and without a limiting adaptor. Needs CUDA and a
/// build that has found RMM.
void add_rmm(peer_list& to);

/// torch's caching allocator, limited to the budget by its memory fraction. Needs CUDA and a build with
/// torch.
void add_torch(peer_list& to, const backend& device);

} // namespace saeta::bench
