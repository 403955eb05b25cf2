// The dictionaries that the batches of a table have at one place: of a column itself, or inside its type.
//
// What      A stream holds them as they are. For a file they are united into one that has each value once, in
//           order of first appearance. Values are compared by their bits, NaNs and zeros too. Nested values
//           and views are compared only as whole dictionaries, and different dictionaries are concatenated.
//           Indices are renumbered, and widened if the union has more values than they can count.
// Owner     Holds copies on the host (on a host context, views).
// Memory    While they are united, a second copy of the dictionaries and 8 bytes per value are allocated on
//           the context.
// Thread    `put` may be called from any thread.
// Failure   unsupported: dictionaries that don't fit into one, or indices inside an extension type that would
//           have to be widened. out_of_range: an index of the column itself outside its dictionary. Inside
//           another type such an index becomes 0, as in `combine_chunks`, because the parent may not refer to
//           its row.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/container.hpp"

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// Indices of children on the path from a column to a dictionary.
using child_path = std::vector<std::size_t>;

/// Returns the paths to all dictionaries of a type that are not inside another dictionary.
std::vector<child_path> dictionary_places(const data_type& type);

class placed_dictionaries {
public:
  placed_dictionaries(const table& source, std::size_t number, child_path path, container format);

  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  /// Whether `put` changes indices.
  [[nodiscard]] bool renumbers() const noexcept { return renumbers_; }
  /// Returns the type of the column with wide enough indices.
  [[nodiscard]] data_type retyped(const data_type& column) const;
  /// Returns the column's rows in batch `index` with this dictionary.
  /// @param data  of the column. In place of the dictionary column, plain indices are enough.
  [[nodiscard]] std::shared_ptr<arrow::ArrayData> put(std::size_t index, const arrow::ArrayData& data,
                                                      const std::shared_ptr<arrow::DataType>& type) const;

private:
  struct entry {
    std::shared_ptr<arrow::Array> values;
    std::vector<std::int64_t> renumbered; ///< new index of each value
  };

  void unite(const table& source, std::span<const column> distinct);
  void widen(const data_type& column, std::int64_t values);
  [[nodiscard]] std::shared_ptr<arrow::ArrayData> put_at(const entry& dictionary,
                                                         const arrow::ArrayData& data,
                                                         const std::shared_ptr<arrow::DataType>& type,
                                                         std::span<const std::size_t> path) const;
  [[nodiscard]] std::shared_ptr<arrow::Buffer> renumbered(const entry& dictionary,
                                                          const arrow::ArrayData& indices) const;
  template <class From, class To>
  [[nodiscard]] std::shared_ptr<arrow::Buffer> renumber(const entry& dictionary,
                                                        const arrow::ArrayData& indices) const;

  std::size_t number_;
  std::string label_;
  child_path path_;
  std::vector<entry> distinct_;
  std::vector<std::size_t> of_batch_; ///< index into `distinct_`
  data_type index_;                   ///< index type in the table
  data_type written_;
  bool renumbers_ = false;
};

} // namespace saeta::ipc::detail
