// Foreign arrays as host arrays: an ArrowArray is checked against its type before any of its buffers is read.
//
// What      An ArrowArray carries no buffer sizes. They follow from the length, the offset and the last
//           offset of strings and lists, which are read where the memory is (`array_memory`). The result of
//           `view_*` is safe to copy and to slice. `check_values` looks at every value that refers to other
//           data, with one kernel per level of nesting for device memory.
// Owner     Nothing is taken: the views are valid until the struct is released.
// Failure   error format (names the array, the field and its numbers), closed (released already), overflow,
//           unsupported.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/device/join.hpp"
#include "saeta/device/value_check.hpp"
#include "saeta/interop/arrow/abi.hpp"
#include "saeta/interop/arrow/array_place.hpp"
#include "saeta/interop/validation.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

/// Checks that run together, and the tables that some of them need.
struct check_list {
  static constexpr std::size_t no_table = static_cast<std::size_t>(-1);
  std::vector<value_check> checks;
  std::vector<std::size_t> table_at; ///< for each check: index in `tables`, or no_table
  std::vector<std::int64_t> tables;
};

/// Sets the table pointer of each check. `tables` is an address in the memory that the kernel reads.
void set_tables(check_list& list, const std::int64_t* tables) noexcept;

/// Reads the values of an array that must be known before the array can be used.
class array_memory {
public:
  virtual ~array_memory() = default;
  /// An integer of 1, 2, 4 or 8 bytes, sign extended.
  [[nodiscard]] virtual std::int64_t number(const std::byte* at, std::size_t width) const = 0;
  /// Counts the zero bits among `length` bits from bit `offset` on.
  [[nodiscard]] virtual std::int64_t count_nulls(const std::byte* validity, std::int64_t offset,
                                                 std::int64_t length) const = 0;
  /// The result of each request, in order.
  [[nodiscard]] virtual std::vector<std::int64_t> numbers(std::span<const value_request> requests) const = 0;
  /// For each check: the first row that fails it, or no_bad_row.
  [[nodiscard]] virtual std::vector<std::int64_t> find_bad_rows(check_list list) const = 0;
};

/// Reads memory that the CPU can access.
const array_memory& in_host_memory() noexcept;

/// Views one array of `type`. If the array has no rows, the view has no buffers: the pointers may be invalid.
/// @param scope  named_rows: children of lists end with the last row that a list refers to
host_array view_array(const data_type& type, const ArrowArray& source, const array_place& place,
                      const array_memory& memory = in_host_memory(),
                      check_scope scope = check_scope::named_rows);

/// Views rows [offset, offset + rows) of one column of a batch.
/// @param view  must be empty; it is filled in place.
void view_column(const field& described, const ArrowArray& source, std::int64_t offset, std::int64_t rows,
                 const array_memory& memory, host_array& view, check_scope scope = check_scope::named_rows);

/// Views a struct array whose children are the fields, from the struct's own offset and for its own length.
host_batch view_batch(const schema& fields, const ArrowArray& source,
                      const array_memory& memory = in_host_memory(),
                      check_scope scope = check_scope::named_rows);

/// Checks every value that refers to other data. Offsets ascend. Indices of valid rows are inside their
/// dictionary. Lists, unions and views stay inside the children or buffers that they name. Run ends ascend.
/// Dictionaries are checked too, unless `known` has them already. `arrays[i]` belongs to `fields[i]`.
/// @param scope  named_rows: the first and last offsets of strings are in range and run ends reach the last
///               row, as `view_*` leaves them. every_row: this is checked as well.
/// @throws error format naming the column, the row and the numbers.
void check_values(std::span<const host_array> arrays, std::span<const field> fields,
                  const dictionary_cache& known, const array_memory& memory, check_scope scope);

/// True if every buffer is aligned as kernels need it: to its element size, at most 8 bytes.
bool aligned(const host_array& source);

} // namespace saeta
