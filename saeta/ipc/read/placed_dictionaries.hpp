// The dictionaries that the batches of a table have at one place: of a column itself, or inside of its type.
//
// What      A stream holds them as they are. For a file they are united into one: each value once, in the
//           order in which the batches have them first; values are told apart by their bits, NaNs and zeros
//           too. Nested values and views are compared as whole dictionaries only, and joined. Indices are
//           renumbered, and widened where the union has more values than they can name.
// Owner     Holds the host's copies (on a host context views).
// Memory    To unite them takes them, and 8 bytes a value, on the context once more, for as long as that
//           takes.
// Thread    `put` may be called from any thread.
// Failure   unsupported: dictionaries that don't fit into one, indices inside of an extension type that would
//           have to be wider; out_of_range: an index of the column itself that is outside its dictionary.
//           Inside of another type nobody may name such a row: there it becomes 0, as in `combine_chunks`.
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

/// Numbers of children, from a column down to a dictionary.
using child_path = std::vector<std::size_t>;

/// The dictionaries of a type that lie in no other dictionary.
std::vector<child_path> dictionary_places(const data_type& type);

class placed_dictionaries {
public:
  placed_dictionaries(const table& source, std::size_t number, child_path path, container format);

  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  /// Whether `put` changes indices.
  [[nodiscard]] bool renumbers() const noexcept { return renumbers_; }
  /// The type of the column with indices that are wide enough.
  [[nodiscard]] data_type retyped(const data_type& column) const;
  /// Rows of the column in batch `index` with this dictionary.
  /// @param data  of the column; at the place itself plain indices do.
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
  std::vector<std::size_t> of_batch_; ///< which of `distinct_`
  data_type index_;                   ///< of the table
  data_type written_;
  bool renumbers_ = false;
};

} // namespace saeta::ipc::detail
