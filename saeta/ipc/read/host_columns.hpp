// The columns of a message as arrays in host memory: over its body, or over decoded buffers.
//
// What      Buffers that are compressed or in foreign byte order get memory of their own; others are views of
//           the body. The sizes of buffers and children, and the first and last offsets, are checked here.
//           Values are not (`check_values`).
// Owner     `host_batch::keepalive` shares the body, the decoded buffers and the dictionaries.
// Budget    New memory is charged as format/message_source.hpp says.
// Failure   error format naming the column and the numbers; unsupported: nulls of unions of version 4, views
//           in foreign byte order; budget_exceeded, out_of_memory.
// Standard  Arrow IPC format.
#pragma once

#include "saeta/column/data_type.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

/// Target and properties of the arrays that are made of a source.
struct host_target {
  std::shared_ptr<context> ctx;
  bool big_endian = false;   ///< the byte order of the source
  bool counts_nulls = false; ///< null counts other than 0, which a source may state wrongly, are counted now
};

/// The dictionaries of a source, from the messages that were read so far.
class host_dictionaries {
public:
  /// Takes the values of a dictionary. Parts that will be joined are checked, whatever the reader asks for.
  void add(const host_target& to, const read_columns& columns, const source_message& message);
  /// The values of dictionary `number`; null if no message has given them. Joins its parts.
  [[nodiscard]] std::shared_ptr<const host_array> values(std::size_t number, const host_target& to);
  /// The number of messages that replaced all values of a dictionary.
  [[nodiscard]] std::size_t replaced() const noexcept { return replaced_; }
  /// Appends the owners of all values of a dictionary.
  void append_owners(std::size_t number, std::vector<std::shared_ptr<void>>& to) const;

private:
  struct entry {
    const dictionary_tree* tree = nullptr;     ///< of the values
    std::vector<host_array> parts;             ///< the joined ones first
    bool checked = false;                      ///< whether the values of the parts were checked
    bool shares_parts = false;                 ///< joined values view memory of the parts
    std::vector<std::shared_ptr<void>> owners; ///< of the memory of parts that came in messages
    std::vector<std::shared_ptr<void>> joined; ///< of the memory of parts that were joined
    std::shared_ptr<const host_array> values;  ///< null until `values` is called
    std::size_t version = 0;                   ///< how often all values were given
    std::vector<std::size_t> inner; ///< versions of the dictionaries that the values have themselves
  };
  static void check_parts(const entry& of, const dictionary_tree& tree);

  std::vector<entry> all_;
  std::size_t replaced_ = 0;
};

/// The columns of a record batch, in the order of the tree.
host_batch host_columns(const host_target& to, const read_columns& columns, const source_message& message,
                        host_dictionaries& dictionaries);

/// Swaps the numbers in a buffer to the byte order of this machine.
/// @param index  of the buffer among those of the type
/// @throws error unsupported for views, whose words depend on their sizes.
void swap_order(const data_type& type, std::size_t index, std::span<std::byte> bytes);

/// The rows of all parts of a dictionary as one array in new memory.
/// @param tree    of its values
/// @param parts   at least one, of one type, checked with all of their values, each with offset 0. The own
///                dictionary of a part begins with those of the parts before it.
/// @param owners  those of new memory are added.
/// @throws error overflow: offsets or run ends can't count the rows; budget_exceeded, out_of_memory.
host_array join_arrays(const std::shared_ptr<context>& ctx, const column_tree& tree,
                       std::span<const host_array> parts, std::vector<std::shared_ptr<void>>& owners);

} // namespace saeta::ipc::detail
