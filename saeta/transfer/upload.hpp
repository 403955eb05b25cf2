// Moves host arrays to a context: by a copy, or as views of host memory.
//
// What      `upload` makes a batch of device columns in one planned transfer. `adopt` views memory without a
//           copy.
// Owner     Adopted columns share the batch's keepalive.
// Failure   budget_exceeded, out_of_memory, closed; `adopt` also throws invalid_argument. Nothing stays
//           allocated.
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <functional>
#include <optional>
#include <span>

namespace saeta {

struct upload_options {
  std::string tag;
  /// Region in which gaps between ranges may be transferred (a mapped file).
  std::span<const std::byte> readable;
  file_region file; ///< region that workers may read by pread
};

/// Uploads a batch to the device of `ctx`. Slices upload only their window, and a dictionary is uploaded once
/// per cache. There is one planned transfer for the batch and one for each new set of dictionaries.
batch upload(const std::shared_ptr<context>& ctx, const host_batch& source, dictionary_cache& dictionaries,
             const upload_options& options);

/// Returns the buffer if the memory is the context's own; empty for other memory.
using own_memory_finder = std::function<std::optional<buffer>(std::span<const std::byte>)>;

struct adopt_options {
  std::string tag{};
  bool on_device = false;  ///< the ranges are addresses of the context's device, not of host memory
  point ready{};           ///< the producer's pending writes come before this point
  own_memory_finder own{}; ///< if empty, no memory counts as the context's own
};

/// Views memory that the context can use in place: no copy. Counted as imports. The context's own memory is
/// shared and not counted.
/// @throws error invalid_argument for host memory if `ctx` is not a host context
batch adopt(const std::shared_ptr<context>& ctx, const host_batch& source, dictionary_cache& dictionaries,
            const adopt_options& options);

} // namespace saeta
