#include "saeta/ipc/read/placed_dictionaries.hpp"

#include "saeta/base/text.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/arrow_bridge.hpp"
#include "saeta/ipc/write/value_bits.hpp"
#include "saeta/symbols/symbols.hpp"
#include "saeta/transfer/build.hpp"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace saeta::ipc::detail {
namespace {

/// A dictionary is compared with at most this many previous different ones. Equal ones in different memory
/// need no union.
constexpr std::size_t most_compared = 8;

void append_places(const data_type& type, child_path& path, std::vector<child_path>& found) {
  if (type.value_type() != nullptr) {
    found.push_back(path);
    return;
  }
  const auto children = type.children();
  for (std::size_t i = 0; i < children.size(); ++i) {
    path.push_back(i);
    append_places(children[i].type, path, found);
    path.pop_back();
  }
}

const column& at(const column& top, std::span<const std::size_t> path) {
  const column* found = &top;
  for (const std::size_t child : path) {
    found = &found->children()[child];
  }
  return *found;
}

const data_type& at(const data_type& top, std::span<const std::size_t> path) {
  const data_type* found = &top;
  for (const std::size_t child : path) {
    found = &found->children()[child].type;
  }
  return *found;
}

/// Makes a dictionary column with one row for each value, in order.
column index_each_value(const column& dictionary) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(dictionary.length()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  const host_values indices = values_of("indices", std::span<const std::int64_t>(rows));
  const table there = table_of_values(dictionary.ctx(), std::span(&indices, 1), "write_ipc");
  const auto buffers = there.batches().front().columns.front().buffers();
  column::parts made;
  made.type = data_type::dictionary(data_type(type_id::int64), dictionary.type());
  made.length = dictionary.length();
  made.null_count = 0;
  made.buffers.append(buffers.begin(), buffers.end());
  made.dictionary = std::make_shared<const column>(dictionary);
  return column::make(dictionary.ctx(), std::move(made));
}

data_type wide_enough(data_type index, std::int64_t values) {
  while (values > max_entries(index)) { // 64-bit indices end the loop
    index = data_type(
        static_cast<type_id>(static_cast<int>(index.id()) + 2)); // signed and unsigned types alternate
  }
  return index;
}

data_type with_indices(const data_type& type, std::span<const std::size_t> path, const data_type& index) {
  if (path.empty()) {
    return data_type::dictionary(index, *type.value_type(), type.ordered());
  }
  std::vector<field> children(type.children().begin(), type.children().end());
  field& changed = children[path.front()];
  changed.type = with_indices(changed.type, path.subspan(1), index);
  return data_type::nested(type.format(), std::move(children), type.keys_sorted());
}

template <class Action>
auto with_index(type_id index, Action action) {
  switch (index) {
  case type_id::int8:
    return action(std::int8_t{});
  case type_id::uint8:
    return action(std::uint8_t{});
  case type_id::int16:
    return action(std::int16_t{});
  case type_id::uint16:
    return action(std::uint16_t{});
  case type_id::int32:
    return action(std::int32_t{});
  case type_id::uint32:
    return action(std::uint32_t{});
  case type_id::int64:
    return action(std::int64_t{});
  default:
    return action(std::uint64_t{});
  }
}

/// The name of the outermost extension type on a path; empty if there is none.
std::string extension_around(const data_type& top, std::span<const std::size_t> path) {
  const data_type* type = &top;
  for (const std::size_t child : path) {
    if (!type->extension_name().empty()) {
      break;
    }
    type = &type->children()[child].type;
  }
  return std::string(type->extension_name());
}

} // namespace

std::vector<child_path> dictionary_places(const data_type& type) {
  std::vector<child_path> found;
  child_path path;
  append_places(type, path, found);
  return found;
}

placed_dictionaries::placed_dictionaries(const field& described, std::size_t number, child_path path,
                                         container format)
    : number_(number), label_(concat("column '", described.name, "'")), path_(std::move(path)),
      format_(format), extension_(extension_around(described.type, path_)),
      index_(*at(described.type, path_).index_type()), written_(index_) {}

void placed_dictionaries::begin(const table& source, bool may_widen) {
  std::vector<column> distinct;
  of_batch_.clear();
  for (const batch& part : source.batches()) {
    const column& dictionary = *at(part.columns[number_], path_).dictionary();
    const auto known = std::find_if(distinct.rbegin(), distinct.rend(),
                                    [&](const column& other) { return same_memory(other, dictionary); });
    if (known == distinct.rend()) {
      of_batch_.push_back(distinct.size());
      distinct.push_back(dictionary);
    } else {
      of_batch_.push_back(static_cast<std::size_t>(distinct.rend() - known) - 1);
    }
  }
  distinct_.clear();
  for (const column& each : distinct) {
    distinct_.push_back({last_ && same_memory(*last_, each) ? last_values_ : export_array(each), {}});
  }
  if (!distinct.empty()) {
    last_ = distinct.back();
    last_values_ = distinct_.back().values;
  }
  renumbers_ = false;
  if (format_ == container::file) {
    unite(distinct, may_widen);
  }
}

void placed_dictionaries::unite(std::span<const column> distinct, bool may_widen) {
  std::vector<std::size_t> different; // indices into `distinct`
  std::vector<std::size_t> like;      // for each of `distinct` its index in `different`
  for (const entry& each : distinct_) {
    std::size_t found = different.size();
    for (std::size_t i = different.size(); i-- > 0 && found - i <= most_compared;) {
      if (same_bits(*distinct_[different[i]].values, *each.values)) {
        found = i;
        break;
      }
    }
    like.push_back(found);
    if (found == different.size()) {
      different.push_back(like.size() - 1);
    }
  }
  if (different.size() <= 1) {
    renumbers_ = written_ != index_; // of an earlier table
    for (entry& each : distinct_) {
      each.values = distinct_.front().values;
      if (renumbers_) {
        each.renumbered.resize(static_cast<std::size_t>(each.values->length()));
        std::iota(each.renumbered.begin(), each.renumbered.end(), std::int64_t{0});
      }
    }
    return;
  }
  std::vector<column> pieces;
  pieces.reserve(different.size());
  for (const std::size_t i : different) {
    pieces.push_back(index_each_value(distinct[i]));
  }
  const std::vector<column> joined = combine_chunks(pieces);
  if (joined.size() != 1) {
    throw error(errc::unsupported,
                concat(label_, ": its batches have ", different.size(), " different dictionaries, and a ",
                       "file holds one: together they have more bytes or values than their 32-bit offsets or "
                       "indices can address. Write a stream (format=\"stream\"), which holds them all"));
  }
  const auto united = export_array(*joined.front().dictionary());
  const auto numbers = export_array(codes_of(joined.front()));
  require_names(united->length(), may_widen);
  std::vector<std::vector<std::int64_t>> renumbered;
  const std::int64_t* next = numbers->data()->GetValues<std::int64_t>(1);
  for (const std::size_t i : different) {
    const std::int64_t* const first = next;
    next += distinct[i].length();
    renumbered.emplace_back(first, next);
  }
  for (std::size_t i = 0; i < distinct_.size(); ++i) {
    distinct_[i] = {united, renumbered[like[i]]};
  }
  renumbers_ = true;
}

/// Widens the written indices if they can't name that many values. @throws error unsupported once they are
/// written, and inside an extension type, whose storage type can't be changed.
void placed_dictionaries::require_names(std::int64_t values, bool may_widen) {
  if (values <= max_entries(written_)) {
    return;
  }
  if (may_widen && extension_.empty()) {
    written_ = wide_enough(index_, values);
    return;
  }
  const std::string reason = extension_.empty()
                                 ? "the file has indices of this type already"
                                 : concat("extension type '", extension_, "' is not made wider");
  throw error(errc::unsupported,
              concat(label_, ": the dictionaries of its batches have ", values,
                     " values together, more than ", written_.name(), " can name, and ", reason,
                     ". Write a stream (format=\"stream\"), which holds them all"));
}

data_type placed_dictionaries::retype(const data_type& column) const {
  return written_ == index_ ? column : with_indices(column, path_, written_);
}

std::shared_ptr<arrow::ArrayData>
placed_dictionaries::put(std::size_t index, const arrow::ArrayData& data,
                         const std::shared_ptr<arrow::DataType>& type) const {
  return put_at(distinct_[of_batch_[index]], data, type, path_);
}

std::shared_ptr<arrow::ArrayData> placed_dictionaries::put_at(const entry& dictionary,
                                                              const arrow::ArrayData& data,
                                                              const std::shared_ptr<arrow::DataType>& type,
                                                              std::span<const std::size_t> path) const {
  auto made = data.Copy();
  if (!path.empty()) {
    auto& child = made->child_data[path.front()];
    const auto& inner = storage_of(*type).field(static_cast<int>(path.front()))->type();
    child = put_at(dictionary, *child, inner, path.subspan(1));
  } else {
    if (renumbers_) {
      made->buffers[1] = renumber_indices(dictionary, data);
    }
    made->dictionary = dictionary.values->data();
  }
  made->type = type;
  return made;
}

std::shared_ptr<arrow::Buffer> placed_dictionaries::renumber_indices(const entry& dictionary,
                                                                     const arrow::ArrayData& indices) const {
  return with_index(index_.id(), [&]<class From>(From) {
    return with_index(written_.id(), [&]<class To>(To) { return renumber<From, To>(dictionary, indices); });
  });
}

template <class From, class To>
std::shared_ptr<arrow::Buffer> placed_dictionaries::renumber(const entry& dictionary,
                                                             const arrow::ArrayData& indices) const {
  const std::int64_t rows = indices.offset + indices.length;
  auto target = take(arrow::AllocateBuffer(rows * static_cast<std::int64_t>(sizeof(To))), label_);
  auto* const written = target->mutable_data_as<To>();
  std::fill_n(written, rows, To{0});
  const auto* const read = indices.GetValues<From>(1, 0);
  const auto* const validity = indices.buffers[0] == nullptr ? nullptr : indices.buffers[0]->data();
  for (std::int64_t row = indices.offset; row < rows; ++row) {
    if (validity != nullptr && !arrow::bit_util::GetBit(validity, static_cast<std::uint64_t>(row))) {
      continue; // the value under a null is not an index
    }
    if (std::in_range<std::size_t>(read[row]) &&
        static_cast<std::size_t>(read[row]) < dictionary.renumbered.size()) {
      written[row] = static_cast<To>(dictionary.renumbered[static_cast<std::size_t>(read[row])]);
    } else if (path_.empty()) {
      throw error(errc::out_of_range,
                  concat(label_, ": index ", +read[row], " at row ", row - indices.offset,
                         " is not in the dictionary, which has ", dictionary.renumbered.size(), " values"));
    }
  }
  return target;
}

} // namespace saeta::ipc::detail
