#include "saeta/compute/compact.hpp"

#include "saeta/column/row_bytes.hpp"
#include "saeta/compute/take.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace saeta {
namespace {

/// Fewer unused bytes than this are copied too, because a gather would take longer.
constexpr std::uint64_t few_bytes = 4096;

bool names_rows(const data_type& type) {
  return type.has_variadic_buffers() || type.mapping() == row_mapping::scattered ||
         std::ranges::any_of(type.children(), [](const field& child) { return names_rows(child.type); });
}

/// True if a dictionary, at any depth, has values that can be gathered.
bool has_such_dictionary(const data_type& type) {
  const data_type* const values = type.value_type();
  return (values != nullptr && (names_rows(*values) || has_such_dictionary(*values))) ||
         std::ranges::any_of(type.children(),
                             [](const field& child) { return has_such_dictionary(child.type); });
}

bool is_wasteful(std::span<const column> pieces) {
  const std::uint64_t carried = bytes_of_columns(pieces, scattered_rows::all, false).total();
  if (carried <= few_bytes) {
    return false;
  }
  const row_bytes referred = bytes_of_columns(pieces, scattered_rows::referred, false);
  const std::uint64_t needed = referred.total();
  return referred.measured && carried - std::min(carried, needed) > std::max(carried / 2, few_bytes);
}

/// Returns the columns gathered; nullopt if they stay as they are.
std::optional<std::vector<column>> gathered(std::span<const column> pieces) {
  if (!names_rows(pieces.front().type()) || !is_wasteful(pieces)) {
    return std::nullopt;
  }
  std::vector<column> columns;
  try {
    for (const column& piece : pieces) {
      columns.push_back(gather(std::span(&piece, 1)).front());
    }
  } catch (const error&) { // no room to gather, or more than 2 GiB behind views: the copy takes everything
    return std::nullopt;
  }
  return columns;
}

/// Gathers the values of dictionaries, each of them once.
class dictionary_compactor {
public:
  /// The column with such dictionaries; nullopt if nothing changes.
  std::optional<column> run(const column& of) {
    if (!has_such_dictionary(of.type())) {
      return std::nullopt;
    }
    bool changed = false;
    column::parts parts;
    parts.type = of.type();
    parts.length = of.length();
    parts.offset = of.offset();
    parts.null_count = of.known_null_count();
    for (const buffer& buffer : of.buffers()) {
      parts.buffers.push_back(buffer);
    }
    for (const column& child : of.children()) {
      auto own = run(child);
      changed = changed || own;
      parts.children.push_back(own ? *std::move(own) : child);
    }
    if (of.dictionary() != nullptr) {
      const compacted& values = values_of(*of.dictionary());
      parts.dictionary = values.made;
      changed = changed || values.changed;
    }
    return changed ? std::optional(column::make(of.ctx(), std::move(parts))) : std::nullopt;
  }

private:
  struct compacted {
    const column* from = nullptr;
    std::shared_ptr<const column> made; ///< one for all columns that share the values
    bool changed = false;
  };

  const compacted& values_of(const column& from) {
    const auto same = [&](const compacted& each) {
      return each.from == &from || same_memory(*each.from, from);
    };
    if (const auto known = std::ranges::find_if(known_, same); known != known_.end()) {
      return *known;
    }
    auto own = gathered(std::span(&from, 1));
    const std::optional<column> values = own ? std::optional(own->front()) : run(from);
    return known_.emplace_back(
        compacted{&from, std::make_shared<const column>(values.value_or(from)), values.has_value()});
  }

  std::deque<compacted> known_;
};

} // namespace

bool compact(std::span<batch> batches) {
  if (batches.empty()) {
    return false;
  }
  bool changed = false;
  dictionary_compactor dictionaries;
  for (std::size_t i = 0; i < batches.front().columns.size(); ++i) {
    const data_type& type = batches.front().columns[i].type();
    if (!names_rows(type) && !has_such_dictionary(type)) {
      continue;
    }
    std::vector<column> pieces;
    std::ranges::transform(batches, std::back_inserter(pieces),
                           [&](const batch& batch) { return batch.columns[i]; });
    auto own = gathered(pieces);
    changed = changed || own;
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
      column& of = batches[piece].columns[i];
      of = own ? std::move((*own)[piece]) : of;
      if (auto with_values = dictionaries.run(of)) {
        of = *std::move(with_values);
        changed = true;
      }
    }
  }
  return changed;
}

table compact(const table& source) {
  std::vector<batch> batches(source.batches().begin(), source.batches().end());
  return compact(batches) ? table::make_sharing(source.ctx(), source.shared_fields(), std::move(batches))
                          : source;
}

} // namespace saeta
