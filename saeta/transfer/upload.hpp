// Moves host arrays to a context: by a copy, or as views of host memory.
//
// What      `upload` makes a batch of device columns in one planned transfer. `adopt` views memory without a
//           copy.
// Owner     Adopted columns share the batch's keepalive.
// Failure   budget_exceeded, out_of_memory, closed; `adopt` also throws invalid_argument. Nothing stays
//           allocated.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/transfer/host_array.hpp"

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace SAETA_EXPORT saeta {

struct upload_options {
  std::string tag{};
  /// Region in which gaps between ranges may be transferred (a mapped file).
  std::span<const std::byte> readable{};
  file_region file{}; ///< region that workers may read by pread
};

/// Uploads a batch to the device of `ctx`. Slices upload only their window, and a dictionary is uploaded once
/// per cache. There is one planned transfer for the batch and one for each new set of dictionaries.
[[nodiscard]] batch upload(const std::shared_ptr<context>& ctx, const host_batch& source,
                           dictionary_cache& dictionaries, const upload_options& options);

/// Returns the buffer if the memory is the context's own; empty for other memory.
using own_memory_finder = std::function<std::optional<buffer>(std::span<const std::byte> memory)>;

struct adopt_options {
  std::string tag{};
  bool on_device = false;  ///< the ranges are addresses of the context's device, not of host memory
  point ready{};           ///< the producer's pending writes come before this point
  own_memory_finder own{}; ///< if empty, no memory counts as the context's own
};

/// Views memory that the context can use in place: no copy. Counted as imports. The context's own memory is
/// shared and not counted.
/// @throws error invalid_argument for host memory if `ctx` is not a host context
[[nodiscard]] batch adopt(const std::shared_ptr<context>& ctx, const host_batch& source,
                          dictionary_cache& dictionaries, const adopt_options& options);

// Tables of raw host values, given in the layout of a device column: no Arrow structs, no loop over values.
//
// What      Typed spans and raw little-endian bytes, row after row and without nulls, go to the device in one
//           planned transfer for each table.
// Owner     The values are copied, on a host context as well. The caller may reuse them when the call
//           returns.
// Failure   As stated below, and budget_exceeded, out_of_memory, closed. Nothing stays allocated.

/// The values of one column. Borrows the bytes.
struct host_values {
  field described; ///< of a type whose values have a fixed whole number of bytes; not a dictionary
  std::span<const std::byte> bytes;
};

template <class T>
concept fixed_value = std::same_as<T, bool> || std::same_as<T, float> || std::same_as<T, double> ||
    (std::integral<T> && sizeof(T) <= sizeof(std::int64_t));

/// The column type for values of type T: an integer of the same width and sign, float32, float64, or "bool8"
/// for bool.
template <fixed_value T>
[[nodiscard]] data_type type_of_values() {
  if constexpr (std::same_as<T, bool>) {
    return data_type::byte_bool();
  } else if constexpr (std::floating_point<T>) {
    return data_type(sizeof(T) == sizeof(float) ? type_id::float32 : type_id::float64);
  } else {
    constexpr type_id ids[][2] = {{type_id::uint8, type_id::int8},
                                  {type_id::uint16, type_id::int16},
                                  {type_id::uint32, type_id::int32},
                                  {type_id::uint64, type_id::int64}};
    return data_type(ids[std::countr_zero(sizeof(T))][std::signed_integral<T>]);
  }
}

/// A column of typed values, without nulls.
template <fixed_value T>
[[nodiscard]] host_values values_of(std::string name, std::span<const T> values) {
  return {{std::move(name), type_of_values<T>(), false, {}}, std::as_bytes(values)};
}

/// Makes a table of one batch. Without columns it has no rows.
/// @throws error unsupported (a dictionary, or a type whose values are not a whole number of bytes),
/// invalid_argument (bytes that are not a whole number of values, columns with different numbers of rows).
/// The message names the column, what was expected and what was given.
[[nodiscard]] table table_of_values(const std::shared_ptr<context>& ctx, std::span<const host_values> columns,
                                    std::string tag = "values");

} // namespace saeta
