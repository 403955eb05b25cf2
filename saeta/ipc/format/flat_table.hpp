// A view of one FlatBuffers table, limited to what Arrow's message metadata needs.
//
// What      Reads fields by number: scalars, tables, vectors of structs and of tables. libarrow has verified
//           the buffers but does not expose the fields that `inspect` shows. Every access is checked against
//           the bytes again.
// Owner     Borrows the bytes.
// Failure   error format naming the offset and the size.
// Standard  FlatBuffers internals (flatbuffers.dev). Field numbers are those of Arrow's *.fbs.
#pragma once

#include "saeta/base/text.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace saeta::ipc::detail {

static_assert(std::endian::native == std::endian::little,
              "FlatBuffers are little-endian and read as they are");

/// A view of a vector of structs in the bytes, at any alignment.
template <class T>
class flat_structs {
public:
  flat_structs() = default;
  flat_structs(const std::byte* first, std::size_t count) : first_(first), count_(count) {}

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] const std::byte* place(std::size_t index) const noexcept {
    return first_ + index * sizeof(T);
  }
  [[nodiscard]] T operator[](std::size_t index) const noexcept {
    T value;
    std::memcpy(&value, place(index), sizeof(T));
    return value;
  }

private:
  const std::byte* first_ = nullptr;
  std::size_t count_ = 0;
};

class flat_table {
public:
  /// The root table of a buffer.
  static flat_table root(std::span<const std::byte> buffer) {
    return {buffer, load<std::uint32_t>(buffer, 0)};
  }

  template <class T>
  requires std::is_arithmetic_v<T>
  [[nodiscard]] T scalar(unsigned field, T missing) const {
    const std::size_t at = place_of(field);
    return at == 0 ? missing : load<T>(buffer_, at);
  }

  /// Offset of a field's value from the beginning of the buffer; nullopt if the table does not have the
  /// field.
  [[nodiscard]] std::optional<std::size_t> place(unsigned field) const {
    const std::size_t at = place_of(field);
    return at == 0 ? std::nullopt : std::optional(at);
  }

  [[nodiscard]] std::optional<flat_table> table(unsigned field) const {
    const std::size_t at = place_of(field);
    if (at == 0) {
      return std::nullopt;
    }
    return flat_table(buffer_, at + load<std::uint32_t>(buffer_, at));
  }

  /// Returns a vector of structs with T's layout; empty if the field is missing.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::vector<T> structs(unsigned field) const {
    const flat_structs<T> found = view<T>(field);
    std::vector<T> values(found.size());
    if (!values.empty()) {
      std::memcpy(values.data(), found.place(0), values.size() * sizeof(T));
    }
    return values;
  }

  /// The same without a copy. The view is valid as long as the bytes.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] flat_structs<T> view(unsigned field) const {
    const std::size_t at = place_of(field);
    if (at == 0) {
      return {};
    }
    const std::size_t vector = at + load<std::uint32_t>(buffer_, at);
    const std::size_t count = load<std::uint32_t>(buffer_, vector);
    const std::size_t first = vector + sizeof(std::uint32_t);
    require(buffer_, first, count * sizeof(T));
    return {buffer_.data() + first, count};
  }

  /// Returns a vector of tables; empty if the field is missing.
  [[nodiscard]] std::vector<flat_table> tables(unsigned field) const {
    const auto offsets = view<std::uint32_t>(field);
    std::vector<flat_table> found;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const auto at = static_cast<std::size_t>(offsets.place(i) - buffer_.data());
      found.push_back(flat_table(buffer_, at + offsets[i]));
    }
    return found;
  }

  /// Offset of the table from the beginning of the buffer.
  [[nodiscard]] std::size_t position() const noexcept { return position_; }

private:
  flat_table(std::span<const std::byte> buffer, std::size_t position) : buffer_(buffer), position_(position) {
    const auto distance = load<std::int32_t>(buffer, position);
    const auto vtable = static_cast<std::int64_t>(position) - distance;
    require(buffer, vtable < 0 ? buffer.size() : static_cast<std::size_t>(vtable), 2 * sizeof(std::uint16_t));
    vtable_ = static_cast<std::size_t>(vtable);
    vtable_bytes_ = load<std::uint16_t>(buffer, vtable_);
  }

  /// Offset of a field's value; 0 if the table does not have the field.
  [[nodiscard]] std::size_t place_of(unsigned field) const {
    const std::size_t entry = (field + 2) * sizeof(std::uint16_t); // the first two entries are sizes
    if (entry + sizeof(std::uint16_t) > vtable_bytes_) {
      return 0;
    }
    const auto offset = load<std::uint16_t>(buffer_, vtable_ + entry);
    return offset == 0 ? 0 : position_ + offset;
  }

  static void require(std::span<const std::byte> buffer, std::size_t at, std::size_t bytes) {
    if (at > buffer.size() || bytes > buffer.size() - at) {
      throw error(errc::format, concat("message metadata: ", bytes, " bytes at offset ", at, " exceed its ",
                                       buffer.size(), " bytes"));
    }
  }

  template <class T>
  static T load(std::span<const std::byte> buffer, std::size_t at) {
    require(buffer, at, sizeof(T));
    T value;
    std::memcpy(&value, buffer.data() + at, sizeof(T));
    return value;
  }

  std::span<const std::byte> buffer_;
  std::size_t position_ = 0;
  std::size_t vtable_ = 0;
  std::size_t vtable_bytes_ = 0;
};

} // namespace saeta::ipc::detail
