#include "saeta/base/checked.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"

#include <algorithm>
#include <cstring>

namespace saeta::ipc::detail {
namespace {

constexpr std::size_t entry_bytes = sizeof(std::uint16_t); // of a vtable
constexpr std::size_t front_entries = 2;                   // the sizes of the vtable and of the table

} // namespace

flat_builder::flat_builder(std::vector<std::byte>& bytes) : bytes_(bytes) { append(std::uint32_t{0}); }

/// Numbers are little-endian, as those of this machine.
template <class T>
void flat_builder::put(std::size_t at, T value) {
  std::memcpy(bytes_.data() + at, &value, sizeof value);
}

template <class T>
void flat_builder::append(T value) {
  const std::size_t at = bytes_.size();
  bytes_.resize(at + sizeof value);
  put(at, value);
}

/// Appends zeros up to a position that leaves `rest` when it is divided by `unit`.
void flat_builder::pad(std::size_t unit, std::size_t rest) {
  const std::size_t over = (bytes_.size() + unit - rest) % unit;
  bytes_.resize(bytes_.size() + (over == 0 ? 0 : unit - over));
}

void flat_builder::link(std::size_t place, std::size_t target) {
  put(place, checked_cast<std::uint32_t>(target - place, "bytes of a schema"));
}

/// The offset of the vtable comes first. Then the widest numbers, so that nothing lies between them: the
/// table begins 4 bytes before a multiple of 8.
flat_builder::table flat_builder::add_table(std::span<const slot> slots) {
  std::vector<slot> widest(slots.begin(), slots.end());
  std::ranges::stable_sort(widest, std::ranges::greater(), &slot::bytes);
  table table;
  std::size_t bytes = sizeof(std::int32_t);
  for (const slot& slot : slots) {
    table.places_.resize(std::max<std::size_t>(table.places_.size(), slot.field + 1), 0);
    bytes += slot.bytes;
  }
  pad(entry_bytes);
  const std::size_t vtable = bytes_.size();
  const std::size_t vtable_bytes = (front_entries + table.places_.size()) * entry_bytes;
  bytes_.resize(vtable + vtable_bytes);
  pad(sizeof(std::uint64_t), sizeof(std::int32_t));
  table.position_ = bytes_.size();
  bytes_.resize(table.position_ + bytes);
  put(vtable, checked_cast<std::uint16_t>(vtable_bytes, "bytes of a vtable"));
  put(vtable + entry_bytes, checked_cast<std::uint16_t>(bytes, "bytes of a table"));
  put(table.position_, static_cast<std::int32_t>(table.position_ - vtable));
  std::size_t at = table.position_ + sizeof(std::int32_t);
  for (const slot& slot : widest) {
    std::memcpy(bytes_.data() + at, &slot.value, slot.bytes);
    put(vtable + (front_entries + slot.field) * entry_bytes,
        static_cast<std::uint16_t>(at - table.position_));
    table.places_[slot.field] = at;
    at += slot.bytes;
  }
  return table;
}

void flat_builder::add_text(std::size_t place, std::string_view text) {
  pad(sizeof(std::uint32_t));
  link(place, bytes_.size());
  append(checked_cast<std::uint32_t>(text.size(), "bytes of a text"));
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  bytes_.insert(bytes_.end(), first, first + text.size());
  bytes_.push_back(std::byte{0});
}

void flat_builder::add_numbers(std::size_t place, std::span<const std::int32_t> numbers) {
  const std::size_t first = add_offsets(place, numbers.size()); // offsets have the width of these numbers
  if (!numbers.empty()) {
    std::memcpy(bytes_.data() + first, numbers.data(), numbers.size_bytes());
  }
}

void flat_builder::add_items(std::size_t place, std::size_t count, std::span<const std::byte> items) {
  pad(sizeof(std::uint64_t), sizeof(std::uint32_t));
  link(place, bytes_.size());
  append(checked_cast<std::uint32_t>(count, "items of a list"));
  bytes_.insert(bytes_.end(), items.begin(), items.end());
}

std::size_t flat_builder::add_offsets(std::size_t place, std::size_t count) {
  pad(sizeof(std::uint32_t));
  link(place, bytes_.size());
  append(checked_cast<std::uint32_t>(count, "items of a list"));
  const std::size_t first = bytes_.size();
  bytes_.resize(first + count * sizeof(std::uint32_t));
  return first;
}

} // namespace saeta::ipc::detail
