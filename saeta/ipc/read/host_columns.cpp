#include "saeta/ipc/read/host_columns.hpp"

#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/codec/decoded_buffers.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace saeta::ipc::detail {
namespace {

using range = std::span<const std::byte>;

/// Makes the arrays of one message.
class array_maker {
public:
  using parts = host_array;
  using array = host_array;

  array_maker(const host_target& to, const source_message& message, host_dictionaries& dictionaries,
              std::vector<std::shared_ptr<void>>& owners)
      : to_(to), batch_(message.layout), body_(message.body), dictionaries_(dictionaries),
        owners_(owners), packed_{.bytes = body_.size(),
                                 .read =
                                     [this](std::uint64_t at, std::span<std::byte> target) {
                                       std::ranges::copy(body_.subspan(at, target.size()), target.begin());
                                     }},
        decoder_(packed_) {}

  void add_buffer(host_array& array, std::size_t number, const field_node& rows) {
    const std::size_t index = array.buffers.size();
    const buffer_spec spec = array.type.buffer(index);
    if (spec.role == buffer_role::validity && rows.null_count == 0) {
      array.buffers.push_back({}); // a null count of 0 is believed, whatever the bitmap says
      return;
    }
    range bytes = bytes_of(number);
    require_bytes(number, bytes.size(), required_bytes(array.type, index, rows.length), spec.name);
    if (to_.big_endian) {
      bytes = swapped(array.type, index, bytes);
    }
    array.buffers.push_back(bytes);
  }

  void set_nulls(host_array& array, const field_node& rows) const {
    if (!array.type.has_validity()) {
      array.null_count = array.type.id() == type_id::null ? rows.length : 0;
    } else if (rows.null_count <= 0) {
      array.null_count = rows.null_count;
    } else if (to_.counts_nulls) {
      array.null_count = in_host_memory().count_nulls(array.buffers[0].data(), 0, rows.length);
    }
  }

  [[nodiscard]] std::shared_ptr<const host_array> dictionary(const tree_node& node, std::int64_t) {
    const data_type& described = *node.type->value_type();
    if (auto known = dictionaries_.values(node.dictionary, to_)) {
      dictionaries_.append_owners(node.dictionary, owners_);
      return known->type == described ? known
                                      : std::make_shared<const host_array>(retyped(*known, described));
    }
    // Arrow allows it to follow batches in which the column has only nulls.
    return std::make_shared<const host_array>(empty(described));
  }

  static host_array empty(const data_type& type) {
    host_array array;
    array.type = type;
    array.null_count = 0;
    array.buffers.resize(type.buffer_count());
    if (const data_type* const values = type.value_type()) {
      array.dictionary = std::make_shared<const host_array>(empty(*values));
    }
    for (const field& child : type.children()) {
      array.children.push_back(empty(child.type));
    }
    return array;
  }

  [[nodiscard]] host_array finish(host_array&& array, const tree_node& node) const {
    if (array.length != 0) {
      require_no_nulls_of_unions(node);
      require_structure(array);
    }
    return std::move(array);
  }

private:
  /// The same values with the type that another column with the same dictionary id declares.
  static host_array retyped(host_array of, const data_type& type) {
    of.type = type;
    for (std::size_t i = 0; i < of.children.size(); ++i) {
      of.children[i] = retyped(std::move(of.children[i]), type.children()[i].type);
    }
    if (of.dictionary != nullptr) {
      of.dictionary = std::make_shared<const host_array>(retyped(*of.dictionary, *type.value_type()));
    }
    return of;
  }

  std::span<std::byte> allocate(std::size_t bytes) {
    owned_bytes result = allocate_body(to_.ctx, bytes);
    owners_.push_back(std::move(result.owner));
    return result.bytes;
  }

  range bytes_of(std::size_t number) {
    const buffer_place place = batch_.buffers[number];
    if (place.length == 0) {
      return {};
    }
    const auto at = static_cast<std::size_t>(place.offset);
    const range range = body_.subspan(at, static_cast<std::size_t>(place.length));
    return batch_.codec == body_codec::none ? range : decoded(number, range);
  }

  range decoded(std::size_t number, range packed) {
    const packed_claim claimed =
        read_claim(number, batch_.codec, packed.size(),
                   [&](std::uint64_t at, std::size_t bytes) { return packed.subspan(at, bytes); });
    const range behind = packed.last(static_cast<std::size_t>(claimed.packed_bytes));
    if (claimed.codec == body_codec::none) {
      return behind;
    }
    const std::span<std::byte> target = allocate(static_cast<std::size_t>(claimed.bytes));
    decoder_.begin({.bytes = claimed.bytes,
                    .source = static_cast<std::uint64_t>(behind.data() - body_.data()),
                    .packed_bytes = claimed.packed_bytes,
                    .codec = claimed.codec});
    decoder_.read(target);
    decoder_.finish();
    return target;
  }

  range swapped(const data_type& type, std::size_t index, range bytes) {
    if (bytes.empty() || type.buffer(index).width <= 1) { // bits, bytes and type ids
      return bytes;
    }
    const std::span<std::byte> result = allocate(bytes.size());
    std::ranges::copy(bytes, result.begin());
    swap_order(type, index, result);
    return result;
  }

  /// Version 4 gave unions a validity, which Arrow 1.0 removed.
  void require_no_nulls_of_unions(const tree_node& node) const {
    const bool is_union = node.type->check() == check_kind::unions;
    if (batch_.version < version_5 && is_union && batch_.nodes[node.row].null_count != 0 &&
        batch_.buffers[node.buffer - 1].length != 0) {
      throw error(errc::unsupported,
                  concat(batch_.nodes[node.row].null_count,
                         " rows of the union are null as a whole, which Arrow 1.0 removed"));
    }
  }

  static void require_structure(const host_array& array) {
    if (array.type.offset_width() != 0) {
      require_offsets(array);
    } else if (array.type.mapping() == row_mapping::run_ends) {
      require_runs(array);
    }
  }

  static void require_offsets(const host_array& array) {
    const std::size_t width = array.type.offset_width();
    const std::int64_t first = read_offset(array.buffers[1].data(), width, 0);
    const std::int64_t last = read_offset(array.buffers[1].data(), width, array.length);
    static_cast<void>(pointed_by(
        first, last, array.children.empty() ? std::ssize(array.buffers[2]) : array.children.front().length,
        array.type));
  }

  static void require_runs(const host_array& array) {
    const host_array& ends = array.children[0];
    const host_array& values = array.children[1];
    if (ends.length != values.length || ends.null_count != 0) {
      throw error(errc::format, concat(ends.length, " run ends with null_count ", ends.null_count, " and ",
                                       values.length, " values"));
    }
    const auto width = static_cast<std::size_t>(ends.type.byte_width());
    if (ends.length == 0 || read_offset(ends.buffers[1].data(), width, ends.length - 1) < array.length) {
      throw error(errc::format, concat("its ", ends.length, " run ends do not reach row ", array.length - 1));
    }
  }

  const host_target& to_;
  const batch_layout& batch_;
  range body_;
  host_dictionaries& dictionaries_;
  std::vector<std::shared_ptr<void>>& owners_;
  scatter_source packed_;
  buffer_decoder decoder_;
};

using host_message = message_columns<array_maker>;

} // namespace

void host_dictionaries::check_parts(const entry& of, const dictionary_tree& tree) {
  try {
    check_values(of.parts, std::vector(of.parts.size(), tree.values), {}, in_host_memory(),
                 check_scope::every_row);
  } catch (const error& failure) {
    rethrow(failure, tree.root_label);
  }
}

void host_dictionaries::add(const host_target& to, const read_columns& columns,
                            const source_message& message) {
  const std::int64_t id = message.layout.dictionary.value();
  const std::size_t number = columns.dictionaries.numbers.at(id);
  const dictionary_tree& tree = *columns.dictionaries.trees[number];
  all_.resize(columns.dictionaries.trees.size());
  entry arrived;
  arrived.tree = &tree;
  if (message.owner != nullptr) {
    arrived.owners.push_back(message.owner);
  }
  array_maker maker(to, message, *this, arrived.owners);
  arrived.parts.push_back(host_message(message.layout, tree, maker).take(0, tree.values.type));
  for (const tree_node& node : tree.nodes) {
    if (node.dictionary != no_node) {
      arrived.shares_parts = true;
      arrived.inner.push_back(all_[node.dictionary].version);
    }
  }
  entry& known = all_[number];
  if (!message.layout.is_delta) {
    replaced_ += known.version == 0 ? 0 : 1;
    arrived.version = known.version + 1;
    known = std::move(arrived);
    return;
  }
  if (known.version == 0) {
    rethrow(delta_of_nothing(id), tree.root_label);
  }
  if (known.inner != arrived.inner) {
    throw error(errc::unsupported,
                concat(tree.root_label, ": the dictionary of its values was replaced between two parts"));
  }
  check_parts(arrived, tree);
  if (!std::exchange(known.checked, true)) {
    check_parts(known, tree);
  }
  known.parts.push_back(std::move(arrived.parts.front()));
  known.owners.insert(known.owners.end(), arrived.owners.begin(), arrived.owners.end());
  known.values = nullptr;
}

std::shared_ptr<const host_array> host_dictionaries::values(std::size_t number, const host_target& to) {
  if (number >= all_.size() || all_[number].version == 0) {
    return nullptr;
  }
  entry& known = all_[number];
  if (known.parts.size() > 1) {
    std::vector<std::shared_ptr<void>> owners;
    host_array joined = join_arrays(to.ctx, *known.tree, known.parts, owners);
    known.parts.clear();
    known.parts.push_back(std::move(joined));
    known.joined = std::move(owners);
    if (!known.shares_parts) {
      known.owners.clear();
    }
  }
  if (known.values == nullptr) {
    known.values = std::make_shared<const host_array>(known.parts.front());
  }
  return known.values;
}

void host_dictionaries::append_owners(std::size_t number, std::vector<std::shared_ptr<void>>& to) const {
  for (const auto* owners : {&all_[number].owners, &all_[number].joined}) {
    to.insert(to.end(), owners->begin(), owners->end());
  }
}

host_batch host_columns(const host_target& to, const read_columns& columns, const source_message& message,
                        host_dictionaries& dictionaries) {
  const column_tree& tree = columns.tree;
  std::vector<std::shared_ptr<void>> owners;
  host_batch batch;
  batch.rows = message.layout.rows;
  batch.arrays.reserve(tree.roots.size());
  array_maker maker(to, message, dictionaries, owners);
  host_message entries(message.layout, tree, maker);
  for (const std::size_t root : tree.roots) {
    batch.arrays.push_back(entries.take(root, *tree.nodes[root].type));
    if (batch.arrays.back().length != batch.rows) {
      throw error(errc::format, concat(tree.label(root), ": ", batch.arrays.back().length,
                                       " rows in a record batch of ", batch.rows));
    }
  }
  batch.memory = message.body;
  if (owners.empty()) {
    batch.keepalive = message.owner;
  } else {
    owners.push_back(message.owner);
    batch.keepalive = std::make_shared<std::vector<std::shared_ptr<void>>>(std::move(owners));
  }
  return batch;
}

namespace {

/// Swaps numbers of these widths, which follow each other again and again. A rest is left alone.
void swap_numbers(std::span<std::byte> bytes, std::initializer_list<std::size_t> widths) {
  std::size_t all = 0;
  for (const std::size_t width : widths) {
    all += width;
  }
  for (; bytes.size() >= all; bytes = bytes.subspan(all)) {
    std::size_t at = 0;
    for (const std::size_t width : widths) {
      std::ranges::reverse(bytes.subspan(at, width));
      at += width;
    }
  }
}

} // namespace

void swap_order(const data_type& type, std::size_t index, std::span<std::byte> bytes) {
  const buffer_spec spec = type.buffer(index);
  if (spec.role == buffer_role::views) {
    throw error(errc::unsupported, "its views are in big-endian byte order");
  }
  if (spec.width <= 1) { // bits, bytes, also those of views, and type ids
    return;
  }
  if (type.id() == type_id::fixed_size_binary) {
    return;
  }
  if (type.id() == type_id::interval_day_time) {
    swap_numbers(bytes, {4, 4});
  } else if (type.id() == type_id::interval_month_day_nano) {
    swap_numbers(bytes, {4, 4, 8});
  } else {
    swap_numbers(bytes, {static_cast<std::size_t>(spec.width)});
  }
}

} // namespace saeta::ipc::detail
