// Foreign arrays as host arrays: an ArrowArray is checked against its type before any buffer is followed.
//
// What      The struct carries no buffer sizes, so they follow from length, offset and the last offset of strings and lists,
//           read where the memory is (`array_memory`). What `view_*` returns is safe to copy and to slice; `check_values` looks
//           at every value that points somewhere, in host memory.
// Owner     Nothing is taken: the views are valid while the struct is not released.
// Failure   error format naming the array, the field and its numbers; closed (released); overflow; unsupported.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/interop/detail/arrow_abi.hpp"
#include "saeta/transfer/host_array.hpp"

#include <string_view>

namespace saeta {

/// Reads what has to be known of an array before it can be used.
class array_memory {
public:
  virtual ~array_memory() = default;
  /// An integer of 2, 4 or 8 bytes, sign extended.
  [[nodiscard]] virtual std::int64_t number(const std::byte* at, std::size_t width) const = 0;
  /// Zero bits among `length` from bit `offset` on.
  [[nodiscard]] virtual std::int64_t count_nulls(const std::byte* validity, std::int64_t offset,
                                                 std::int64_t length) const = 0;
};

/// Memory that the CPU reads.
const array_memory& in_host_memory() noexcept;

/// One array of `type`. An array without rows becomes one without buffers, because nothing in it may be followed.
host_array view_array(const data_type& type, const ArrowArray& source, std::string_view label,
                      const array_memory& memory = in_host_memory());

/// A struct array whose children are the fields; the rows of its own window.
host_batch view_batch(const schema& fields, const ArrowArray& source,
                      const array_memory& memory = in_host_memory());

/// Every offset in order; every dictionary index inside its dictionary, but for rows that are null; the dictionary's own
/// values too, unless `known` has the dictionary already.
/// @throws error format naming the row and the numbers.
void check_values(const host_array& source, const dictionary_cache& known, std::string_view label);

/// True where every buffer is aligned as kernels need it: to its element, at most 8 bytes.
bool aligned(const host_array& source);

} // namespace saeta
