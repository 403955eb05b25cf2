// The dictionaries of tables that are written, one after the other, to a file or a stream.
//
// What      The batches of a table may share a dictionary, or have equal or different ones. Each dictionary
//           of a whole column is downloaded once. Batches are downloaded as plain indices, and `restore` adds
//           their dictionary again. A file holds one dictionary for a column and for each place inside its
//           type, so different ones of a table are united (`placed_dictionaries`). A stream replaces them
//           between batches. Symbols are downloaded as numbers and get one dictionary of their names, which
//           grows from table to table. Symbols on a device are downloaded twice, first to collect the names.
// Owner     Holds the table from `begin` to `end`, with copies of its dictionaries on the host (on a host
//           context, views). What the next table may need is kept.
// Thread    `restore` may be called from any thread, one at a time.
// Failure   As `placed_dictionaries`. unsupported: dictionaries that can't be read back; out_of_range: a
//           symbol that is not in its table. Every error names the column.

#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/symbols/symbols.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// Returns whether the first rows of two arrays of the same type are equal, bit by bit. Values under nulls
/// are ignored. The union of dictionaries (compute/join_node.hpp) compares in the same way.
bool same_rows(const host_array& a, const host_array& b, std::int64_t rows);

bool same_rows(const host_array& a, const host_array& b);

// The dictionaries that the batches of tables have at one place: of a column itself, or inside its type.
//
// What      A stream holds them as they are. For a file those of one table are united into one that has each
//           value once, in order of first appearance. Values are compared by their bits, NaNs and zeros too.
//           Nested values and views are compared only as whole dictionaries, and different dictionaries are
//           concatenated. Indices are renumbered. They are widened if the union of the first table has more
//           values than they can count; later tables get the same width.
// Owner     Holds copies on the host (on a host context, views), and the last dictionary with its copy, since
//           the next table often has the same one.
// Memory    While they are united, a second copy of the dictionaries and 8 bytes per value are allocated on
//           the context.
// Thread    `put` may be called from any thread.
// Failure   unsupported: dictionaries that don't fit into one, or indices that would have to be widened
//           inside an extension type or after the first table. out_of_range: an index of the column itself
//           outside its dictionary. Inside another type such an index becomes 0, as in `combine_chunks`,
//           because the parent may not refer to its row.

/// Indices of children on the path from a column to a dictionary.
using child_path = std::vector<std::size_t>;

/// A column in host memory, with the owner of its bytes.
std::shared_ptr<const host_array> owned_on_host(const column& source);

/// Returns the paths to all dictionaries of a type that are not inside another dictionary.
std::vector<child_path> dictionary_places(const data_type& type);

class placed_dictionaries {
public:
  /// @param described  column `number` of every table
  placed_dictionaries(const field& described, std::size_t number, child_path path, container format);

  /// Takes the dictionaries of the next table.
  /// @param may_widen  false once the type is written
  void begin(const table& source, bool may_widen);
  /// Drops state that only the rows of the current table needed.
  void end() noexcept { distinct_.clear(); }

  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  /// Whether `put` changes indices.
  [[nodiscard]] bool has_new_numbers() const noexcept { return renumbers_; }
  /// Returns the type of the column with wide enough indices.
  [[nodiscard]] data_type retype(const data_type& column) const;
  /// Gives the column's rows in batch `index` of the table this dictionary. In place of the dictionary
  /// column, they may have plain indices.
  /// @param owners  receives the owners of new memory
  void put(std::size_t index, host_array& rows, std::vector<std::shared_ptr<void>>& owners) const;

private:
  struct entry {
    std::shared_ptr<const host_array> values; ///< with their owner
    std::vector<std::int64_t> renumbered;     ///< new index of each value
  };

  void unite(std::span<const column> distinct, bool may_widen);
  void require_names(std::int64_t values, bool may_widen);
  void put_at(const entry& dictionary, host_array& rows, std::span<const std::size_t> path,
              std::vector<std::shared_ptr<void>>& owners) const;
  void renumber_indices(const entry& dictionary, host_array& indices,
                        std::vector<std::shared_ptr<void>>& owners) const;
  template <class From, class To>
  [[nodiscard]] std::vector<To> renumber(const entry& dictionary, const host_array& indices) const;

  std::size_t number_;
  std::string label_;
  child_path path_;
  container format_;
  std::string extension_; ///< the outermost extension type around the indices
  std::vector<entry> distinct_;
  std::vector<std::size_t> of_batch_; ///< index into `distinct_`
  data_type index_;                   ///< index type in the tables
  data_type written_;
  bool ordered_;
  bool renumbers_ = false;
  std::optional<column> last_; ///< dictionary of an earlier batch
  std::shared_ptr<const host_array> last_values_;
};

/// @throws error unsupported naming the column: dictionaries of dictionaries, which no reader takes, and
///         dictionaries of an extension type, which the format can't express.
void require_writable(const schema& fields);

/// Whether a column has a dictionary or symbols, itself or inside its type.
[[nodiscard]] bool has_dictionaries(const schema& fields);

class written_dictionaries {
public:
  /// @param fields   of every table
  /// @param several  more than one table may follow. Dictionaries inside other types are then kept without
  ///                 the rows that they came with.
  written_dictionaries(const schema& fields, container format, bool several);

  /// Takes the next table. The first one may widen indices in the schema that is written.
  void begin(const table& source);
  /// Drops the table.
  void end() noexcept;

  /// The schema that is written, final after the first `begin`.
  [[nodiscard]] const schema& described() const noexcept { return described_; }
  /// The table with plain indices in place of dictionary columns, and numbers in place of symbols.
  [[nodiscard]] const table& indices() const { return indices_.value(); }
  /// Whether `restore` reads or changes the values of a column, not only its dictionary.
  [[nodiscard]] bool will_rewrite(std::size_t number) const;
  /// Makes batch `index` of `indices()` have the form that is written. Its dictionaries own their memory.
  void restore(std::size_t index, host_batch& rows) const;

private:
  struct symbol_column {
    std::size_t number = 0; ///< column of the table
    std::string label;
    std::unique_ptr<symbol_dictionary> names;
    std::shared_ptr<const host_array> values; ///< with their owner
  };

  /// The dictionaries at one place, and whether the current table takes them from there.
  struct place {
    placed_dictionaries dictionaries;
    bool used = false;
  };

  static void gather_names(symbol_column& of, const table& source);
  static void rename_dictionary(const symbol_column& column, host_array& numbers,
                                std::vector<std::shared_ptr<void>>& owners);

  schema fields_;
  schema described_;
  bool begun_ = false;
  std::optional<table> indices_;
  std::vector<place> places_;
  std::vector<symbol_column> symbols_;
};

} // namespace saeta::ipc::detail
