// Host arrays on their way to a context: by a copy, or as views of host memory.
//
// What      `upload` makes a batch of device columns in one planned transfer; on a host context `adopt` makes them without
//           a copy.
// Owner     Columns that were adopted share the batch's keepalive.
// Failure   budget_exceeded, out_of_memory, closed; of `adopt` also invalid_argument. Nothing stays allocated.
#pragma once

#include "saeta/transfer/host_array.hpp"

namespace saeta {

struct upload_options {
  std::string tag;
  std::span<const std::byte> readable; ///< region whose gaps may be carried along (a mapped file)
  file_region file;                    ///< region that workers may pread
};

/// The batch on the device of `where`: slices upload only their window, dictionaries once a cache. One planned transfer
/// for the batch and one for each new dictionary set.
batch upload(const std::shared_ptr<context>& home, const host_batch& source, dictionary_cache& dictionaries,
             const upload_options& options);

/// The batch as views of host memory in a host context: no copy; counted as imports.
/// @throws error invalid_argument when `where` is not a host context.
batch adopt(const std::shared_ptr<context>& home, const host_batch& source, dictionary_cache& dictionaries,
            const std::string& tag);

} // namespace saeta
