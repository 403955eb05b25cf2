// Host arrays: Arrow data in ordinary memory, before an upload or after a download.
//
// What      Has the shape of a column, with byte ranges instead of buffers (transfer/upload.hpp,
//           transfer/download.hpp).
// Owner     `keepalive` keeps the ranges alive. Adopted columns share it.
// Failure   The maker of the array validates it (interop/, ipc/): offsets lie inside their bytes.
#pragma once

#include "saeta/base/short_list.hpp"
#include "saeta/column/table.hpp"
#include "saeta/staging/transfer_plan.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saeta {

class symbol_mapping; // symbols/symbols.hpp

struct host_array {
  data_type type;
  std::int64_t length = 0;
  std::int64_t offset = 0;
  std::int64_t null_count = column::unknown_nulls;
  /// As `column::parts::buffers`. A null data pointer is an absent buffer.
  short_list<std::span<const std::byte>, 3> buffers{};
  std::shared_ptr<const host_array> dictionary{};
  std::vector<host_array> children{}; ///< as `column::parts::children`
};

struct host_batch {
  std::int64_t rows = 0;
  std::vector<host_array> arrays;
  std::shared_ptr<void> keepalive;
  /// Memory that can be read as a whole, with most of the ranges: they are adopted as one. May be empty.
  std::span<const std::byte> memory{};
};

/// Dictionaries of one source that are already in the context or are mapped to symbols, by the addresses of
/// their byte ranges. The cache keeps each source alive, so that no other dictionary can appear at the same
/// addresses.
class dictionary_cache {
public:
  [[nodiscard]] std::shared_ptr<const column> find(const host_array& dictionary) const;
  void remember(const host_array& dictionary, std::shared_ptr<const column> uploaded,
                std::shared_ptr<void> source);
  [[nodiscard]] std::shared_ptr<const symbol_mapping> find_symbols(const host_array& dictionary) const;
  void remember(const host_array& dictionary, std::shared_ptr<const symbol_mapping> symbols,
                std::shared_ptr<void> source);
  /// True if both describe the same memory.
  static bool is_same(const host_array& a, const host_array& b) {
    return key_of(a) == key_of(b) && a.type == b.type;
  }

private:
  /// Addresses of the buffers, and offsets and lengths, of the array with its children and dictionary.
  using key = std::pair<std::vector<const std::byte*>, std::vector<std::int64_t>>;
  static key key_of(const host_array& dictionary);
  static void append_key(const host_array& of, key& made);
  struct entry {
    std::shared_ptr<const column> uploaded;
    std::shared_ptr<const symbol_mapping> symbols;
    std::shared_ptr<void> source;
  };
  std::multimap<key, entry> known_; ///< the same values have an entry for each declared type
  /// Separate, because one column of a dictionary may be symbols and another not.
  std::map<key, entry> known_symbols_;
};

} // namespace saeta
