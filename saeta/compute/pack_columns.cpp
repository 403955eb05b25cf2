#include "saeta/compute/pack_columns.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/join_node.hpp"
#include "saeta/compute/join_slab.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

namespace saeta {
namespace {

constexpr std::size_t pack_alignment = 64; // of buffers in a body, as the Arrow format recommends

/// Finds the part of one storage that contains all buffers of columns.
class body_finder {
public:
  explicit body_finder(std::size_t alignment) : alignment_(alignment) {}

  /// Returns false if the columns are not packed.
  bool add(const column& of) {
    if (of.sliced()) {
      return false;
    }
    const auto fits = [this](const buffer& buffer) { return add(buffer); };
    if (!std::ranges::all_of(of.buffers(), fits)) {
      return false;
    }
    for (const column& child : of.children()) {
      if (!add(child)) {
        return false;
      }
    }
    const column* const values = of.dictionary();
    return values == nullptr || !dictionaries_.insert(values).second || add(*values);
  }

  /// Returns nullopt if too many bytes are between the buffers.
  [[nodiscard]] std::optional<buffer> body() const {
    constexpr std::size_t small = 4096;
    if (owner_ == nullptr) {
      return buffer();
    }
    const std::size_t bytes = std::min(round_up(end_ - first_, pack_alignment), (*owner_)->bytes() - first_);
    if (bytes > used_ && bytes - used_ > std::max(bytes / 8, small)) {
      return std::nullopt;
    }
    return buffer(*owner_).slice(first_, bytes);
  }

private:
  bool add(const buffer& of) {
    if (of.size() == 0) {
      return true;
    }
    if (owner_ == nullptr) {
      owner_ = &of.owner();
      beyond_ = of.address() % pack_alignment;
    }
    if (*owner_ != of.owner()) {
      return false;
    }
    first_ = std::min(first_, of.offset());
    end_ = std::max(end_, of.offset() + of.size());
    used_ += round_up(of.size(), pack_alignment);
    return of.address() % pack_alignment == beyond_ && beyond_ % alignment_ == 0;
  }

  std::size_t alignment_;
  const std::shared_ptr<storage>* owner_ = nullptr;
  std::size_t first_ = std::numeric_limits<std::size_t>::max(); ///< offset in the storage
  std::size_t end_ = 0;
  std::size_t beyond_ = 0; ///< bytes from a multiple of 64 to each buffer
  std::size_t used_ = 0;   ///< bytes of the buffers with their padding
  std::unordered_set<const column*> dictionaries_;
};

bool has_nulls(const column& of) { return of.type().has_validity() && of.known_null_count() != 0; }

bool has_bits(const column& of) {
  for (std::size_t i = 0; i < of.type().buffer_count(); ++i) {
    if (of.type().buffer(i).role == buffer_role::bits) {
      return true;
    }
  }
  return has_nulls(of);
}

/// True if its rows need no change in the packed form: their bytes are copied, and nothing is read first.
bool is_plain(const column& of) {
  const data_type& type = of.type();
  if (of.known_null_count() == column::unknown_nulls || type.offset_width() != 0 ||
      type.mapping() == row_mapping::run_ends) {
    return false;
  }
  if (of.sliced()) {
    return type.children().empty() && (of.offset() % 8 == 0 || !has_bits(of));
  }
  if (type.children().empty()) {
    return true;
  }
  const auto rows = rows_of_children(type, 0, of.length());
  return std::ranges::all_of(of.children(), [&](const column& child) {
    return (!rows || child.length() == rows->count) && is_plain(child);
  });
}

/// The place of buffer `index` of a column in the body that contains it.
packed_range place_of(const column& of, std::size_t index, const buffer& body) {
  const buffer& bytes = of.buffers()[index];
  const buffer_spec spec = of.type().buffer(index);
  const bool no_nulls = spec.role == buffer_role::validity && of.known_null_count() == 0;
  if (of.length() == 0 || bytes.size() == 0 || no_nulls) {
    return {};
  }
  const std::size_t size = spec.role == buffer_role::bytes
                               ? bytes.size()
                               : bytes_of_rows(spec, 0, static_cast<std::size_t>(of.length())).bytes;
  return {static_cast<std::int64_t>(bytes.address() - body.address()), static_cast<std::int64_t>(size)};
}

/// Room for flat columns; others need more.
packed_rows begin_list(const batch& of) {
  constexpr std::size_t buffers = 2;
  packed_rows rows{.rows = of.rows};
  rows.nodes.reserve(of.columns.size());
  rows.buffers.reserve(of.columns.size() * buffers);
  return rows;
}

/// Lists columns that lie in one body.
class column_lister {
public:
  explicit column_lister(buffer body) { made_.body = std::move(body); }

  packed_columns run(std::span<const batch> batches) {
    made_.batches.reserve(batches.size());
    for (const batch& batch : batches) {
      packed_rows& into = made_.batches.emplace_back(begin_list(batch));
      for (const column& of : batch.columns) {
        add(of, into);
      }
    }
    return std::move(made_);
  }

private:
  void add(const column& of, packed_rows& into) {
    const std::size_t node = into.nodes.size();
    into.nodes.push_back({of.length(), of.known_null_count()});
    for (std::size_t i = 0; i < of.buffers().size(); ++i) {
      into.buffers.push_back(place_of(of, i, made_.body));
    }
    if (of.type().has_variadic_buffers()) {
      into.variadic_counts.push_back(
          static_cast<std::int64_t>(of.buffers().size() - of.type().buffer_count()));
    }
    for (std::size_t i = 0; i < of.children().size(); ++i) {
      add(of.child(i), into);
    }
    if (of.dictionary() != nullptr && of.length() != 0) {
      into.dictionaries.push_back({node, number_of(*of.dictionary())});
    }
  }

  std::size_t number_of(const column& values) {
    if (const auto known = numbers_.find(&values); known != numbers_.end()) {
      return known->second;
    }
    packed_rows listed{.rows = values.length()};
    add(values, listed); // dictionaries inside the values come first
    made_.dictionaries.push_back({&values, std::move(listed)});
    return numbers_[&values] = made_.dictionaries.size() - 1;
  }

  packed_columns made_;
  std::map<const column*, std::size_t> numbers_; ///< index in `made_.dictionaries`
};

/// Copies columns into one slab: the bytes of plain ones, the rows of others as a join of one piece.
/// Joins leave dictionaries and the bytes behind views in place. So these are copied like columns of their
/// own. The results are listed and not made: for a thousand columns, making them takes longer than the rest.
class column_gatherer {
public:
  explicit column_gatherer(std::shared_ptr<context> ctx) : ctx_(std::move(ctx)) {}

  packed_columns run(std::span<const batch> batches, const std::string& tag) {
    constexpr std::size_t buffers = 2; // of flat columns; others need more room
    std::size_t columns = 0;
    for (const batch& batch : batches) {
      columns += batch.columns.size();
    }
    std::vector<source> sources;
    sources.reserve(columns);
    plain_.reserve(columns * buffers);
    for (const batch& batch : batches) {
      for (const column& of : batch.columns) {
        add_referenced(of);
        sources.push_back(add(of));
      }
    }
    std::vector<join_node> nodes = join_nodes(ctx_, inputs_);
    for (join_node& node : nodes) {
      node.begin_group();
      node.take(0);
    }
    join_slab slab(ctx_, nodes, 0, 1, tag, plain_);
    joined_ = slab.columns();
    slab_ = &slab;
    packed_columns result{.body = slab.slab()};
    result.dictionaries.reserve(dictionaries_.size());
    for (const source& dictionary : dictionaries_) {
      packed_rows listed{.rows = dictionary.from->length()};
      list(dictionary, listed);
      result.dictionaries.push_back({dictionary.from, std::move(listed)});
    }
    result.batches.reserve(batches.size());
    auto next = sources.cbegin();
    for (const batch& batch : batches) {
      packed_rows& into = result.batches.emplace_back(begin_list(batch));
      for (std::size_t i = 0; i < batch.columns.size(); ++i) {
        list(*next++, into);
      }
    }
    return result;
  }

private:
  /// The origin of a column of the result.
  struct source {
    const column* from = nullptr;
    bool plain = false;
    std::size_t first = 0; ///< index of its first buffer in `plain_`, or of its join in `inputs_`
  };
  using byte_range = std::pair<std::uintptr_t, std::size_t>;

  static byte_range range_of(const buffer& of) { return {of.address(), of.size()}; }

  /// Adds the dictionaries and the bytes behind views of a column. Dictionaries inside the values of another
  /// one come first.
  void add_referenced(const column& of) {
    if (of.length() == 0) {
      return;
    }
    for (const buffer& buffer : of.buffers().subspan(of.type().buffer_count())) {
      if (buffer.size() != 0 && bytes_.try_emplace(range_of(buffer), plain_.size()).second) {
        plain_.push_back({&buffer, {0, buffer.size()}});
      }
    }
    for (const column& child : of.children()) {
      add_referenced(child);
    }
    const column* const values = of.dictionary();
    if (values != nullptr && numbers_.try_emplace(values, 0).second) {
      add_referenced(*values);
      numbers_[values] = dictionaries_.size();
      dictionaries_.push_back(add(*values));
    }
  }

  source add(const column& of) {
    if (is_plain(of)) {
      const source source{&of, true, plain_.size()};
      add_bytes(of);
      return source;
    }
    inputs_.push_back({&of});
    return {&of, false, inputs_.size() - 1};
  }

  /// Adds the bytes of a plain column, in the order in which `copied` takes them.
  void add_bytes(const column& of) {
    if (of.length() == 0) {
      return;
    }
    for (std::size_t i = 0; i < of.type().buffer_count(); ++i) {
      const buffer_spec spec = of.type().buffer(i);
      const bool needed = spec.role != buffer_role::validity || has_nulls(of);
      plain_.push_back({&of.buffers()[i], needed ? bytes_of_rows(spec, static_cast<std::size_t>(of.offset()),
                                                                 static_cast<std::size_t>(of.length()))
                                                 : byte_window()});
    }
    for (const column& child : of.children()) {
      add_bytes(child);
    }
  }

  void list(const source& of, packed_rows& into) const {
    std::size_t next = of.first;
    if (of.plain) {
      list(*of.from, *of.from, &next, into);
    } else {
      list(joined_[of.first], *of.from, nullptr, into);
    }
  }

  /// @param of    the rows of the result: a joined column, or a plain one
  /// @param from  the source column; buffers and dictionaries that joins do not copy are taken from it
  /// @param next  of a plain column: index of its first buffer in `plain_`; becomes that of the next column
  void list(const column& of, const column& from, std::size_t* next, packed_rows& into) const {
    if (of.length() == 0) {
      return list_empty(of, into);
    }
    const std::size_t node = into.nodes.size();
    into.nodes.push_back({of.length(), of.known_null_count()});
    const std::size_t own = of.type().buffer_count();
    for (std::size_t i = 0; i < own; ++i) {
      into.buffers.push_back(next != nullptr ? place_of_copy((*next)++) : place_of(of, i, slab_->slab()));
    }
    if (of.type().has_variadic_buffers()) {
      for (const buffer& buffer : from.buffers().subspan(own)) {
        into.buffers.push_back(buffer.size() == 0 ? packed_range()
                                                  : place_of_copy(bytes_.at(range_of(buffer))));
      }
      into.variadic_counts.push_back(static_cast<std::int64_t>(from.buffers().size() - own));
    }
    for (std::size_t i = 0; i < of.children().size(); ++i) {
      list(of.children()[i], from.children()[i], next, into);
    }
    if (from.dictionary() != nullptr) {
      into.dictionaries.push_back({node, numbers_.at(from.dictionary())});
    }
  }

  /// @param index  in `plain_`
  [[nodiscard]] packed_range place_of_copy(std::size_t index) const noexcept {
    const byte_window place = slab_->plain(index);
    return {static_cast<std::int64_t>(place.offset), static_cast<std::int64_t>(place.bytes)};
  }

  static void list_empty(const column& of, packed_rows& into) {
    into.nodes.emplace_back();
    into.buffers.resize(into.buffers.size() + of.type().buffer_count());
    if (of.type().has_variadic_buffers()) {
      into.variadic_counts.push_back(0);
    }
    for (const column& child : of.children()) {
      list_empty(child, into);
    }
  }

  std::shared_ptr<context> ctx_;
  std::vector<plain_bytes> plain_;
  std::vector<column_pieces> inputs_;       ///< columns that are joined, one piece each
  std::vector<column> joined_;              ///< one result for each input
  const join_slab* slab_ = nullptr;         ///< known while the results are listed
  std::map<byte_range, std::size_t> bytes_; ///< index in `plain_` of each buffer of bytes
  std::vector<source> dictionaries_;
  std::map<const column*, std::size_t> numbers_; ///< index in `dictionaries_`
};

} // namespace

std::optional<packed_columns> find_packed(std::span<const batch> batches, std::size_t alignment) {
  body_finder finder(alignment);
  for (const batch& batch : batches) {
    if (!std::ranges::all_of(batch.columns, [&](const column& of) { return finder.add(of); })) {
      return std::nullopt;
    }
  }
  auto body = finder.body();
  return body ? std::optional(column_lister(*std::move(body)).run(batches)) : std::nullopt;
}

packed_columns pack_columns(const std::shared_ptr<context>& ctx, std::span<const batch> batches,
                            const std::string& tag) {
  require_argument(ctx, "ctx");
  for (const batch& batch : batches) {
    for (const column& of : batch.columns) {
      if (!of.ctx()->shares_with(*ctx)) {
        throw error(errc::invalid_argument, concat("can't pack a column on ", to_string(of.ctx()->device()),
                                                   " in the context of ", to_string(ctx->device())));
      }
    }
  }
  return column_gatherer(ctx).run(batches, tag);
}

} // namespace saeta
