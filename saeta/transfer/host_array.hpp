// Host arrays: Arrow data in ordinary memory, on its way to a context or back from one.
//
// What      The shape of a column with byte ranges where a column has buffers. `upload` makes a batch of device columns
//           in one planned transfer; on a host context `adopt` makes them without a copy. `download` is the way back.
// Owner     `keepalive` keeps the ranges alive; columns that were adopted share it.
// Failure   Validated by whoever made the array (interop/, ipc/): offsets lie inside their bytes.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/transfer/plan.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saeta {

struct host_array {
  data_type type;
  std::int64_t length = 0;
  std::int64_t offset = 0;
  std::int64_t null_count = column::unknown_nulls;
  /// As `column::parts::buffers`; a null data pointer is an absent buffer.
  std::vector<std::span<const std::byte>> buffers;
  std::shared_ptr<const host_array> dictionary;
};

struct host_batch {
  std::int64_t rows = 0;
  std::vector<host_array> arrays;
  std::shared_ptr<void> keepalive;
};

/// Dictionaries of one source that are in the context already, by the addresses of their byte ranges. The cache keeps the
/// source of each alive, so that no other dictionary can appear at the same addresses.
class dictionary_cache {
public:
  [[nodiscard]] std::shared_ptr<const column> find(const host_array& dictionary) const;
  void remember(const host_array& dictionary, std::shared_ptr<const column> uploaded,
                std::shared_ptr<void> source);
  /// True for two descriptions of the same memory.
  static bool same(const host_array& a, const host_array& b) {
    return key_of(a) == key_of(b) && a.type == b.type;
  }

private:
  using key = std::pair<std::vector<const std::byte*>, std::pair<std::int64_t, std::int64_t>>;
  static key key_of(const host_array& dictionary);
  struct entry {
    std::shared_ptr<const column> uploaded;
    std::shared_ptr<void> source;
  };
  std::map<key, entry> known_;
};

struct upload_options {
  std::string tag;
  std::span<const std::byte> readable; ///< region whose gaps may be carried along (a mapped file)
  file_region file;                    ///< region that workers may pread
};

/// The batch on the device of `where`: slices upload only their window, dictionaries once a cache. One planned transfer
/// for the batch and one for each new dictionary set.
batch upload(const std::shared_ptr<context>& where, const host_batch& source, dictionary_cache& dictionaries,
             const upload_options& options);

/// The batch as views of host memory in a host context: no copy; counted as imports.
/// @throws error invalid_argument when `where` is not a host context.
batch adopt(const std::shared_ptr<context>& where, const host_batch& source, dictionary_cache& dictionaries,
            const std::string& tag);

/// Rows of a batch in host memory: one planned transfer into one allocation, only the windows that the rows refer to; on a
/// host context views without a copy.
host_batch download(const std::shared_ptr<context>& where, const batch& source);

} // namespace saeta
