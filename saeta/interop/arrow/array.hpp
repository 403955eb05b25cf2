// Foreign arrays as host arrays: an ArrowArray is checked against its type before any buffer is followed.
//
// What      The struct carries no buffer sizes, so they follow from length, offset and the last offset of strings and lists,
//           read where the memory is (`array_memory`). What `view_*` returns is safe to copy and to slice; `check_values` looks
//           at every value that points somewhere, by one kernel a level of nesting where the memory is a device's.
// Owner     Nothing is taken: the views are valid while the struct is not released.
// Failure   error format naming the array, the field and its numbers; closed (released); overflow; unsupported.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/device/join.hpp"
#include "saeta/device/value_check.hpp"
#include "saeta/interop/arrow/abi.hpp"
#include "saeta/interop/arrow/array_place.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

/// Checks to be made at once, and the tables that some of them need.
struct check_list {
  static constexpr std::size_t no_table = static_cast<std::size_t>(-1);
  std::vector<value_check> checks;
  std::vector<std::size_t> table_at; ///< for each check, in `tables`
  std::vector<std::int64_t> tables;
};

/// Gives the checks their tables, which lie at `tables` in the memory of the kernel.
void set_tables(check_list& list, const std::int64_t* tables) noexcept;

/// Reads what has to be known of an array before it can be used.
class array_memory {
public:
  virtual ~array_memory() = default;
  /// An integer of 1, 2, 4 or 8 bytes, sign extended.
  [[nodiscard]] virtual std::int64_t number(const std::byte* at, std::size_t width) const = 0;
  /// Zero bits among `length` from bit `offset` on.
  [[nodiscard]] virtual std::int64_t count_nulls(const std::byte* validity, std::int64_t offset,
                                                 std::int64_t length) const = 0;
  /// What each request asks for.
  [[nodiscard]] virtual std::vector<std::int64_t> numbers(std::span<const value_request> requests) const = 0;
  /// The first row that breaks each check, or no_bad_row.
  [[nodiscard]] virtual std::vector<std::int64_t> bad_rows(check_list list) const = 0;
};

/// Memory that the CPU reads.
const array_memory& in_host_memory() noexcept;

/// One array of `type`. An array without rows becomes one without buffers, because nothing in it may be followed.
host_array view_array(const data_type& type, const ArrowArray& source, const array_place& place,
                      const array_memory& memory = in_host_memory());

/// Rows [offset, offset + rows) of one column of a batch.
/// @param view  an empty one, where it is to stay.
void view_column(const field& described, const ArrowArray& source, std::int64_t offset, std::int64_t rows,
                 const array_memory& memory, host_array& view);

/// A struct array whose children are the fields; the rows of its own window.
host_batch view_batch(const schema& fields, const ArrowArray& source,
                      const array_memory& memory = in_host_memory());

/// Every value of the arrays, which are those of the fields, that points somewhere: offsets in order, indices inside their
/// dictionary where the row is valid, lists, unions and views inside what they name, run ends that rise. Dictionaries too,
/// unless `known` has them already.
/// @throws error format naming the column, the row and the numbers.
void check_values(std::span<const host_array> arrays, std::span<const field> fields,
                  const dictionary_cache& known, const array_memory& memory);

/// True where every buffer is aligned as kernels need it: to its element, at most 8 bytes.
bool aligned(const host_array& source);

} // namespace saeta
