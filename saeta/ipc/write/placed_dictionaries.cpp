#include "saeta/base/text.hpp"
#include "saeta/column/number_kind.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/symbols/symbols.hpp"
#include "saeta/transfer/host_array.hpp"
#include "saeta/transfer/upload.hpp"

#include <algorithm>
#include <concepts>
#include <cstring>
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
  const column* column = &top;
  for (const std::size_t child : path) {
    column = &column->children()[child];
  }
  return *column;
}

const data_type& at(const data_type& top, std::span<const std::size_t> path) {
  const data_type* type = &top;
  for (const std::size_t child : path) {
    type = &type->children()[child].type;
  }
  return *type;
}

/// Makes a dictionary column with one row for each value, in order.
column index_each_value(const column& dictionary) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(dictionary.length()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  const host_values indices = values_of("indices", std::span<const std::int64_t>(rows));
  const table there = table_of_values(dictionary.ctx(), std::span(&indices, 1), "write_ipc");
  const auto buffers = there.batches().front().columns.front().buffers();
  column::parts parts;
  parts.type = data_type::dictionary(data_type(type_id::int64), dictionary.type());
  parts.length = dictionary.length();
  parts.null_count = 0;
  parts.buffers.append(buffers.begin(), buffers.end());
  parts.dictionary = std::make_shared<const column>(dictionary);
  return column::make(dictionary.ctx(), std::move(parts));
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

/// Calls `run` with a value of an index type.
template <class Run>
void with_index(const data_type& index, Run run) {
  with_number<std::int8_t, std::int8_t>(number_kind_of_number(index), [&](auto value) {
    if constexpr (std::integral<decltype(value)>) {
      run(value);
    }
  });
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

std::shared_ptr<const host_array> owned_on_host(const column& source) {
  const batch alone{source.length(), {source}};
  const auto batch =
      std::make_shared<host_batch>(std::move(host_batches(source.ctx(), std::span(&alone, 1)).front()));
  return {batch, &batch->arrays.front()};
}

std::vector<child_path> dictionary_places(const data_type& type) {
  std::vector<child_path> paths;
  child_path path;
  append_places(type, path, paths);
  return paths;
}

placed_dictionaries::placed_dictionaries(const field& described, std::size_t number, child_path path,
                                         container format)
    : number_(number), label_(concat("column '", described.name, "'")), path_(std::move(path)),
      format_(format), extension_(extension_around(described.type, path_)),
      index_(*at(described.type, path_).index_type()), written_(index_),
      ordered_(at(described.type, path_).ordered()) {}

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
  for (const column& column : distinct) {
    distinct_.push_back({last_ && same_memory(*last_, column) ? last_values_ : owned_on_host(column), {}});
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
  for (const entry& entry : distinct_) {
    std::size_t index = different.size();
    for (std::size_t i = different.size(); i-- > 0 && index - i <= most_compared;) {
      if (same_rows(*distinct_[different[i]].values, *entry.values)) {
        index = i;
        break;
      }
    }
    like.push_back(index);
    if (index == different.size()) {
      different.push_back(like.size() - 1);
    }
  }
  if (different.size() <= 1) {
    renumbers_ = written_ != index_; // of an earlier table
    for (entry& entry : distinct_) {
      entry.values = distinct_.front().values;
      if (renumbers_) {
        entry.renumbered.resize(static_cast<std::size_t>(entry.values->length));
        std::iota(entry.renumbered.begin(), entry.renumbered.end(), std::int64_t{0});
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
  const auto united = owned_on_host(*joined.front().dictionary());
  const auto numbers = owned_on_host(codes_of(joined.front()));
  require_names(united->length, may_widen);
  std::vector<std::vector<std::int64_t>> renumbered;
  const std::byte* next =
      numbers->buffers[1].data() + numbers->offset * static_cast<std::int64_t>(sizeof(std::int64_t));
  for (const std::size_t i : different) {
    std::vector<std::int64_t>& part = renumbered.emplace_back(static_cast<std::size_t>(distinct[i].length()));
    if (!part.empty()) {
      std::memcpy(part.data(), next, part.size() * sizeof(std::int64_t));
    }
    next += part.size() * sizeof(std::int64_t);
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

void placed_dictionaries::put(std::size_t index, host_array& rows,
                              std::vector<std::shared_ptr<void>>& owners) const {
  put_at(distinct_[of_batch_[index]], rows, path_, owners);
  rows.type = retype(rows.type);
}

void placed_dictionaries::put_at(const entry& dictionary, host_array& rows, std::span<const std::size_t> path,
                                 std::vector<std::shared_ptr<void>>& owners) const {
  if (!path.empty()) {
    put_at(dictionary, rows.children[path.front()], path.subspan(1), owners);
    return;
  }
  if (renumbers_) {
    renumber_indices(dictionary, rows, owners);
  }
  rows.dictionary = dictionary.values;
  rows.type = data_type::dictionary(written_, dictionary.values->type, ordered_);
}

void placed_dictionaries::renumber_indices(const entry& dictionary, host_array& indices,
                                           std::vector<std::shared_ptr<void>>& owners) const {
  with_index(index_, [&]<class From>(From) {
    with_index(written_, [&]<class To>(To) {
      const auto own = std::make_shared<std::vector<To>>(renumber<From, To>(dictionary, indices));
      indices.buffers[1] = std::as_bytes(std::span(*own));
      owners.push_back(own);
    });
  });
}

template <class From, class To>
std::vector<To> placed_dictionaries::renumber(const entry& dictionary, const host_array& indices) const {
  const std::int64_t end = indices.offset + indices.length;
  std::vector<To> written(static_cast<std::size_t>(end));
  const std::byte* const read = indices.buffers[1].data();
  const std::span<const std::byte> validity = indices.buffers[0];
  for (std::int64_t row = indices.offset; row < end; ++row) {
    if (validity.data() != nullptr && !bit_at(validity, row)) {
      continue; // the value under a null is not an index
    }
    From index{};
    std::memcpy(&index, read + static_cast<std::size_t>(row) * sizeof index, sizeof index);
    if (std::in_range<std::size_t>(index) && static_cast<std::size_t>(index) < dictionary.renumbered.size()) {
      written[static_cast<std::size_t>(row)] =
          static_cast<To>(dictionary.renumbered[static_cast<std::size_t>(index)]);
    } else if (path_.empty()) {
      throw error(errc::out_of_range,
                  concat(label_, ": index ", +index, " at row ", row - indices.offset,
                         " is not in the dictionary, which has ", dictionary.renumbered.size(), " values"));
    }
  }
  return written;
}

} // namespace saeta::ipc::detail
