// Foreign arrays as host arrays: an ArrowArray is checked against its type before any of its buffers is read.
//
// @code
// const field described{"price", data_type(type_id::float64), true, {}};
// const array_place place = array_place::column(described.name);
// const host_array on_host = view_array(described.type, array, place); // borrows the struct's buffers
// const device_memory reads(ctx); // for an array on the device: numbers are read after the work stream
// const array_memory& memory = reads;
// const host_array on_device = view_array(described.type, array, place, memory);
// @endcode
//
// What      An ArrowArray carries no buffer sizes. They follow from the length, the offset and the last
//           offset of strings and lists, which are read where the memory is (`array_memory`). The result of
//           `view_*` is safe to copy and to slice. `check_values` looks at every value that refers to other
//           data, with one kernel per level of nesting for device memory.
// Owner     Nothing is taken: the views are valid until the struct is released.
// Failure   error format (names the array, the field and its numbers), closed (released already), overflow,
//           unsupported.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/device/join.hpp"
#include "saeta/device/value_check.hpp"
#include "saeta/interop/arrow/abi.hpp"
#include "saeta/interop/options.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

/// The position of an array in a table. It becomes text only when a message needs it: "column 'a', child
/// 'b'". Borrows the names; a child also borrows the place of its parent.
class array_place {
public:
  /// A place that one word names, such as "batch".
  explicit array_place(std::string_view word) noexcept : name_(word) {}
  static array_place column(std::string_view name) noexcept { return {nullptr, name, true}; }
  [[nodiscard]] array_place child(std::string_view name) const noexcept { return {this, name, true}; }
  [[nodiscard]] array_place dictionary() const noexcept {
    array_place place = *this;
    ++place.dictionaries_;
    return place;
  }

  friend std::ostream& operator<<(std::ostream& out, const array_place& of) {
    for (int i = 0; i < of.dictionaries_; ++i) {
      out << "dictionary of ";
    }
    if (!of.named_) {
      return out << of.name_;
    }
    if (of.outer_ == nullptr) {
      return out << "column '" << of.name_ << "'";
    }
    return out << *of.outer_ << ", child '" << of.name_ << "'";
  }

private:
  array_place(const array_place* outer, std::string_view name, bool named) noexcept
      : outer_(outer), name_(name), named_(named) {}

  const array_place* outer_ = nullptr;
  std::string_view name_;
  bool named_ = false;
  int dictionaries_ = 0;
};

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
[[nodiscard]] host_array view_array(const data_type& type, const ArrowArray& source, const array_place& place,
                                    const array_memory& memory = in_host_memory(),
                                    check_scope scope = check_scope::named_rows);

/// Views rows [offset, offset + rows) of one column of a batch.
/// @param view  must be empty; it is filled in place.
void view_column(const field& described, const ArrowArray& source, std::int64_t offset, std::int64_t rows,
                 const array_memory& memory, host_array& view, check_scope scope = check_scope::named_rows);

/// Views a struct array whose children are the fields, from the struct's own offset and for its own length.
[[nodiscard]] host_batch view_batch(const schema& fields, const ArrowArray& source,
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

/// Reads memory of a context's device, after the work that is queued on its work stream. The host waits for
/// each read.
class device_memory final : public array_memory {
public:
  /// Borrows the pointer.
  explicit device_memory(const std::shared_ptr<context>& ctx) : ctx_(ctx) {}

  [[nodiscard]] std::int64_t number(const std::byte* at, std::size_t width) const override;
  [[nodiscard]] std::int64_t count_nulls(const std::byte* validity, std::int64_t offset,
                                         std::int64_t length) const override;
  [[nodiscard]] std::vector<std::int64_t> numbers(std::span<const value_request> requests) const override;
  [[nodiscard]] std::vector<std::int64_t> find_bad_rows(check_list list) const override;

private:
  const std::shared_ptr<context>& ctx_;
};

/// Checks the values of columns that were made of buffers from elsewhere.
///
/// What      `check_values` in every row that a child has.
/// Owner     Keeps the dictionaries that it has checked.
/// Order     After the last writes of the columns. The host waits for the answers.
/// Thread    One at a time.
/// Failure   error format naming the column, the row and the numbers; budget_exceeded, closed, device.
///
/// @code
/// const field described{"price", price.type(), true, {}};
/// column_checker checker(ctx);
/// checker.check(std::span(&price, 1), std::span(&described, 1)); // error format at the first bad row
/// @endcode
class column_checker {
public:
  explicit column_checker(std::shared_ptr<context> ctx) : ctx_(required(std::move(ctx), "ctx")) {}

  /// @param columns  of the context, one for each field; structurally valid, as `column::make` leaves them
  void check(std::span<const column> columns, std::span<const field> fields);
  /// Checks the values of a dictionary once for all columns that share it.
  void check_dictionary(const std::shared_ptr<const column>& values, const field& described);

private:
  std::shared_ptr<context> ctx_;
  dictionary_cache known_;
};

} // namespace saeta
