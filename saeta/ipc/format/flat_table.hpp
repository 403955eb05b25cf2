// A view of one FlatBuffers table, limited to what Arrow's message metadata needs.
//
// What      Reads fields by number: scalars, text, tables, vectors of structs and of tables. Every access is
//           checked against the bytes, which nobody needs to have verified before.
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
#include <string_view>
#include <type_traits>
#include <vector>

namespace saeta::ipc::detail {

static_assert(std::endian::native == std::endian::little,
              "FlatBuffers are little-endian and read as they are");

[[noreturn]] inline void refuse_metadata(std::string_view why) {
  throw error(errc::format, std::string(why));
}

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

class flat_tables;

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
    return at == 0 ? missing : load_aligned<T>(at);
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
    return flat_table(buffer_, target_of(at));
  }

  /// Returns a vector of structs with T's layout; empty if the field is missing.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::vector<T> structs(unsigned field) const {
    const flat_structs<T> structs = view<T>(field);
    std::vector<T> values(structs.size());
    if (!values.empty()) {
      std::memcpy(values.data(), structs.place(0), values.size() * sizeof(T));
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
    const std::size_t vector = target_of(at);
    const std::size_t count = load_aligned<std::uint32_t>(vector);
    const std::size_t first = vector + sizeof(std::uint32_t);
    require(buffer_, first, count * sizeof(T));
    return {buffer_.data() + first, count};
  }

  /// Returns a string; empty if the field is missing. It is valid as long as the bytes.
  /// @throws error format also if no zero byte follows it.
  [[nodiscard]] std::string_view text(unsigned field) const {
    const flat_structs<char> structs = view<char>(field);
    if (structs.place(0) == nullptr) {
      return {};
    }
    const auto end = static_cast<std::size_t>(structs.place(structs.size()) - buffer_.data());
    if (load<char>(buffer_, end) != 0) {
      throw error(errc::format,
                  concat("message metadata: the string that ends at offset ", end, " has no end"));
    }
    return {reinterpret_cast<const char*>(structs.place(0)), structs.size()};
  }

  /// Returns a vector of tables; empty if the field is missing.
  [[nodiscard]] flat_tables tables(unsigned field) const;

  /// Checks that the table lies where writers put tables: aligned, with all of its vtable in the bytes.
  void require_place(std::string_view what) const {
    if (position_ % sizeof(std::int32_t) != 0 || vtable_ % sizeof(std::uint16_t) != 0 ||
        vtable_bytes_ % sizeof(std::uint16_t) != 0 || vtable_bytes_ > buffer_.size() - vtable_) {
      refuse_metadata(concat("the table of ", what, " is not aligned, or has no end"));
    }
  }
  /// Offset of the table from the beginning of the buffer.
  [[nodiscard]] std::size_t position() const noexcept { return position_; }

private:
  friend flat_tables;

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

  /// Numbers in tables are aligned, as libarrow demands too.
  template <class T>
  [[nodiscard]] T load_aligned(std::size_t at) const {
    const T value = load<T>(buffer_, at);
    if (at % sizeof(T) != 0) [[unlikely]] {
      throw error(errc::format,
                  concat("message metadata: ", sizeof(T), " bytes at offset ", at, " are not aligned"));
    }
    return value;
  }

  /// Where the offset at a place leads to.
  [[nodiscard]] std::size_t target_of(std::size_t at) const {
    const auto offset = load_aligned<std::uint32_t>(at);
    if (offset == 0) [[unlikely]] {
      throw error(errc::format, concat("message metadata: the field at offset ", at, " leads to itself"));
    }
    return at + offset;
  }

  static void require(std::span<const std::byte> buffer, std::size_t at, std::size_t bytes) {
    if (at > buffer.size() || bytes > buffer.size() - at) [[unlikely]] {
      refuse(buffer, at, bytes);
    }
  }

  [[noreturn, gnu::noinline]] static void refuse(std::span<const std::byte> buffer, std::size_t at,
                                                 std::size_t bytes) {
    throw error(errc::format, concat("message metadata: ", bytes, " bytes at offset ", at, " exceed its ",
                                     buffer.size(), " bytes"));
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

/// A view of a vector of tables in the bytes.
class flat_tables {
public:
  flat_tables(std::span<const std::byte> buffer, flat_structs<std::uint32_t> offsets)
      : buffer_(buffer), offsets_(offsets) {}

  [[nodiscard]] std::size_t size() const noexcept { return offsets_.size(); }
  [[nodiscard]] flat_table operator[](std::size_t index) const {
    const auto at = static_cast<std::size_t>(offsets_.place(index) - buffer_.data());
    return {buffer_, at + offsets_[index]};
  }

private:
  std::span<const std::byte> buffer_;
  flat_structs<std::uint32_t> offsets_;
};

inline flat_tables flat_table::tables(unsigned field) const { return {buffer_, view<std::uint32_t>(field)}; }

} // namespace saeta::ipc::detail
