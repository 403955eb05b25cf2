// Host arrays on their way to a context: by a copy, or as views of host memory.
//
// What      `upload` makes a batch of device columns in one planned transfer; on a host context `adopt` makes them without
//           a copy.
// Owner     Columns that were adopted share the batch's keepalive.
// Failure   budget_exceeded, out_of_memory, closed; of `adopt` also invalid_argument. Nothing stays allocated.
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <functional>
#include <optional>
#include <span>

namespace saeta {

struct upload_options {
  std::string tag;
  std::span<const std::byte> readable; ///< region whose gaps may be carried along (a mapped file)
  file_region file;                    ///< region that workers may pread
};

/// The batch on the device of `where`: slices upload only their window, dictionaries once a cache. One planned transfer
/// for the batch and one for each new dictionary set.
batch upload(const std::shared_ptr<context>& ctx, const host_batch& source, dictionary_cache& dictionaries,
             const upload_options& options);

/// The buffer of memory that the context has already; nothing for memory of others.
using own_memory_finder = std::function<std::optional<buffer>(std::span<const std::byte>)>;

struct adopt_options {
  std::string tag{};
  bool on_device = false;  ///< the ranges are addresses of the context's device, not of host memory
  point ready{};           ///< after the producer's pending writes
  own_memory_finder own{}; ///< empty: all memory is that of others
};

/// The batch as views of memory that the context can use where it is: no copy; counted as imports. Memory of its own is shared
/// and no import.
/// @throws error invalid_argument for host memory when `ctx` is not a host context.
batch adopt(const std::shared_ptr<context>& ctx, const host_batch& source, dictionary_cache& dictionaries,
            const adopt_options& options);

} // namespace saeta
