#include "saeta/base/checked.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/compute/join_node.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace saeta {
namespace {

void set_bit(std::vector<std::byte>& bits, std::size_t position) {
  bits[position / 8] |= std::byte{1} << static_cast<int>(position % 8);
}

} // namespace

std::int64_t max_entries(const data_type& index) noexcept {
  const int bits = index.byte_width() * 8 - (index.is_signed() ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<std::int64_t>::max() : std::int64_t{1} << bits;
}

void dictionary_union::add(const column& dictionary) {
  // The last one is the most likely match: the pieces of a file share their dictionary.
  const auto match = std::find_if(distinct_.rbegin(), distinct_.rend(),
                                  [&](const column& known) { return same_memory(known, dictionary); });
  if (match != distinct_.rend()) {
    number_.push_back(static_cast<std::size_t>(std::distance(match, distinct_.rend())) - 1);
  } else {
    number_.push_back(distinct_.size());
    distinct_.push_back(dictionary);
  }
}

bool dictionary_union::compares() const noexcept {
  const data_type& type = *type_.value_type();
  const buffer_role role = type.buffer(1).role;
  return role == buffer_role::bits || (role == buffer_role::values && type.id() != type_id::dictionary) ||
         (role == buffer_role::offsets && type.children().empty());
}

dictionary_union::value dictionary_union::value_of(const host_array& from, std::int64_t row) {
  static constexpr std::string_view booleans("\0\1", 2);
  const std::int64_t at = from.offset + row;
  if (from.buffers[0].data() != nullptr && !bit_at(from.buffers[0], at)) {
    return std::nullopt;
  }
  const buffer_role role = from.type.buffer(1).role;
  if (role == buffer_role::bits) {
    return booleans.substr(bit_at(from.buffers[1], at) ? 1 : 0, 1);
  }
  const std::span<const std::byte> bytes = bytes_of_value(from, at);
  return bytes.empty() ? std::string_view()
                       : std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::int64_t dictionary_union::id_of(const value& sought) const {
  if (!sought) {
    return null_id_;
  }
  const auto entry = ids_.find(*sought);
  return entry == ids_.end() ? -1 : entry->second;
}

void dictionary_union::begin_group() {
  ids_.clear();
  null_id_ = -1;
  found_.clear();
  mappings_.assign(distinct_.size(), {});
}

bool dictionary_union::can_index(std::int64_t entries) const noexcept {
  return entries <= max_entries(*type_.index_type());
}

bool dictionary_union::fits(std::size_t piece) const {
  if (values_.empty() || mappings_[number_[piece]].taken) {
    return true;
  }
  const host_array& from = values_[number_[piece]];
  const auto known = static_cast<std::int64_t>(found_.size());
  if (found_.empty() || can_index(known + from.length)) {
    return true;
  }
  // A new value that occurs twice in one dictionary counts twice: a group may end early, but no index
  // overflows.
  std::int64_t fresh = 0;
  for (std::int64_t row = 0; row < from.length; ++row) {
    fresh += id_of(value_of(from, row)) < 0 ? 1 : 0;
  }
  return can_index(known + fresh);
}

void dictionary_union::take(std::size_t piece) {
  if (values_.empty()) {
    return;
  }
  const host_array& from = values_[number_[piece]];
  mapping& mapping = mappings_[number_[piece]];
  if (mapping.taken) {
    return;
  }
  mapping.taken = true;
  mapping.ids.reserve(static_cast<std::size_t>(from.length));
  for (std::int64_t row = 0; row < from.length; ++row) {
    const value here = value_of(from, row);
    std::int64_t id = id_of(here);
    if (id < 0) {
      id = static_cast<std::int64_t>(found_.size());
      found_.push_back(here);
      if (here) {
        ids_.emplace(*here, id);
      } else {
        null_id_ = id;
      }
    }
    mapping.same = mapping.same && id == row;
    mapping.ids.push_back(id);
  }
}

std::span<const std::int64_t> dictionary_union::remap(std::size_t piece) const noexcept {
  if (values_.empty() || mappings_[number_[piece]].same) {
    return {};
  }
  return mappings_[number_[piece]].ids;
}

std::optional<column> dictionary_union::find_existing() const {
  if (values_.empty()) {
    return distinct_.empty() ? std::nullopt : std::optional(distinct_.front());
  }
  for (std::size_t i = 0; i < distinct_.size(); ++i) {
    if (mappings_[i].taken && mappings_[i].same && mappings_[i].ids.size() == found_.size()) {
      return distinct_[i];
    }
  }
  return std::nullopt;
}

host_array dictionary_union::values() {
  const data_type& type = *type_.value_type();
  const bool bits = type.buffer(1).role == buffer_role::bits;
  const std::size_t bitmap = (found_.size() + 7) / 8;
  const auto width = static_cast<std::size_t>(type.byte_width());
  validity_.assign(null_id_ < 0 ? 0 : bitmap, std::byte{0});
  offsets_.clear();
  bytes_.assign(bits ? bitmap : 0, std::byte{0});
  const auto append_offset = [&] {
    const auto end = static_cast<std::int64_t>(bytes_.size());
    const std::size_t wide = type.offset_width();
    if (wide == sizeof(std::int32_t) && end > std::numeric_limits<std::int32_t>::max()) {
      throw error(errc::out_of_range, concat("joining dictionaries of ", type.name(), ": their values have ",
                                             end, " bytes, 32-bit offsets reach 2147483647"));
    }
    offsets_.resize(offsets_.size() + wide);
    std::memcpy(offsets_.data() + offsets_.size() - wide, &end, wide); // little-endian
  };
  if (type.offset_width() != 0) {
    append_offset();
  }
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const value& here = found_[i];
    if (here && null_id_ >= 0) {
      set_bit(validity_, i);
    }
    if (bits) {
      if (here && here->front() != '\0') {
        set_bit(bytes_, i);
      }
      continue;
    }
    const auto* const from = here ? reinterpret_cast<const std::byte*>(here->data()) : nullptr;
    if (from != nullptr) {
      bytes_.insert(bytes_.end(), from, from + here->size());
    }
    bytes_.resize(bytes_.size() + (here ? 0 : width));
    if (type.offset_width() != 0) {
      append_offset();
    }
  }
  host_array array;
  array.type = type;
  array.length = static_cast<std::int64_t>(found_.size());
  array.null_count = null_id_ < 0 ? 0 : 1;
  array.buffers.emplace_back(null_id_ < 0 ? std::span<const std::byte>() : validity_);
  if (type.offset_width() != 0) {
    array.buffers.emplace_back(offsets_);
  }
  array.buffers.emplace_back(bytes_);
  return array;
}

} // namespace saeta
