#include "saeta/compute/pack_columns.hpp"

#include "saeta/base/checked.hpp"
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

constexpr std::size_t pack_alignment = 64; // as the Arrow format recommends

/// Finds the part of one storage that contains all buffers of columns.
class body_finder {
public:
  /// Returns false if the columns are not packed.
  bool add(const column& of) {
    if (of.sliced()) {
      return false;
    }
    const auto fits = [this](const buffer& each) { return add(each); };
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
    const std::size_t bytes = std::min(round_up(end_, pack_alignment), (*owner_)->bytes()) - first_;
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
    if (owner_ != nullptr && *owner_ != of.owner()) {
      return false;
    }
    owner_ = &of.owner();
    first_ = std::min(first_, of.offset());
    end_ = std::max(end_, of.offset() + of.size());
    used_ += round_up(of.size(), pack_alignment);
    return of.address() % pack_alignment == 0;
  }

  const std::shared_ptr<storage>* owner_ = nullptr;
  std::size_t first_ = std::numeric_limits<std::size_t>::max(); ///< offset in the storage
  std::size_t end_ = 0;
  std::size_t used_ = 0; ///< bytes of the buffers with their padding
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
  const auto rows = rows_of_children(type, 0, of.length());
  return std::ranges::all_of(of.children(), [&](const column& child) {
    return (!rows || child.length() == rows->count) && is_plain(child);
  });
}

/// Copies columns into one slab: the bytes of plain ones, the rows of others as a join of one piece.
/// Joins leave dictionaries and the bytes behind views in place. So these are copied like columns of their
/// own, and the results are then put in their places.
class column_gatherer {
public:
  explicit column_gatherer(std::shared_ptr<context> ctx) : ctx_(std::move(ctx)) {}

  packed_columns run(std::span<const batch> batches, const std::string& tag) {
    std::vector<source> sources;
    for (const batch& each : batches) {
      for (const column& of : each.columns) {
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
    for (dictionary& each : dictionaries_) {
      each.packed = std::make_shared<const column>(packed(each.from));
    }
    packed_columns made;
    made.columns.reserve(sources.size());
    for (const source& each : sources) {
      made.columns.push_back(packed(each));
    }
    made.body = slab.slab();
    return made;
  }

private:
  /// What a column of the result is made from.
  struct source {
    const column* from = nullptr;
    bool plain = false;
    std::size_t first = 0; ///< index of its first buffer in `plain_`, or of its join in `inputs_`
  };
  struct dictionary {
    source from;
    std::shared_ptr<const column> packed{};
  };
  using byte_range = std::pair<std::uintptr_t, std::size_t>;

  static byte_range range_of(const buffer& of) { return {of.address(), of.size()}; }

  /// Adds the dictionaries and the bytes behind views of a column. Dictionaries inside the values of another
  /// one come first.
  void add_referenced(const column& of) {
    if (of.length() == 0) {
      return;
    }
    for (const buffer& each : of.buffers().subspan(of.type().buffer_count())) {
      if (each.size() != 0 && bytes_.try_emplace(range_of(each), plain_.size()).second) {
        plain_.push_back({&each, {0, each.size()}});
      }
    }
    for (const column& child : of.children()) {
      add_referenced(child);
    }
    const column* const values = of.dictionary();
    if (values != nullptr && numbers_.try_emplace(values, 0).second) {
      add_referenced(*values);
      numbers_[values] = dictionaries_.size();
      dictionaries_.push_back({add(*values)});
    }
  }

  source add(const column& of) {
    if (is_plain(of)) {
      const source made{&of, true, plain_.size()};
      add_bytes(of);
      return made;
    }
    inputs_.push_back({of});
    return {&of, false, inputs_.size() - 1};
  }

  /// Adds the bytes of a plain column, in the order in which `copied` takes them.
  void add_bytes(const column& of) {
    if (of.length() == 0) {
      return;
    }
    for (std::size_t i = 0; i < of.type().buffer_count(); ++i) {
      const buffer_spec spec = of.type().buffer(i);
      byte_window window =
          bytes_of_rows(spec, static_cast<std::size_t>(of.offset()), static_cast<std::size_t>(of.length()));
      if (spec.role == buffer_role::validity && !has_nulls(of)) {
        window.bytes = 0;
      }
      plain_.push_back({&of.buffers()[i], window});
    }
    for (const column& child : of.children()) {
      add_bytes(child);
    }
  }

  [[nodiscard]] column packed(const source& of) const {
    std::size_t next = of.first;
    return of.plain ? copied(*of.from, next) : complete(*of.from, joined_[of.first]);
  }

  /// A plain column over its copied bytes.
  /// @param next  index of its first buffer in `plain_`; becomes that of the next column
  [[nodiscard]] column copied(const column& from, std::size_t& next) const {
    if (from.length() == 0) {
      return column::empty(ctx_, from.type());
    }
    column::parts parts;
    parts.type = from.type();
    parts.length = from.length();
    parts.null_count = from.known_null_count();
    for (std::size_t i = 0; i < parts.type.buffer_count(); ++i) {
      parts.buffers.push_back(slab_->plain(next++));
    }
    for (const column& child : from.children()) {
      parts.children.push_back(copied(child, next));
    }
    return with_referenced(from, parts);
  }

  /// A joined column with packed dictionaries and packed bytes behind its views.
  [[nodiscard]] column complete(const column& from, const column& joined) const {
    if (joined.length() == 0 || (bytes_.empty() && dictionaries_.empty())) {
      return joined;
    }
    column::parts parts;
    parts.type = joined.type();
    parts.length = joined.length();
    parts.null_count = joined.known_null_count();
    const auto own = joined.buffers().first(parts.type.buffer_count());
    parts.buffers.assign(own.begin(), own.end());
    for (std::size_t i = 0; i < joined.children().size(); ++i) {
      parts.children.push_back(complete(from.children()[i], joined.children()[i]));
    }
    return with_referenced(from, parts);
  }

  [[nodiscard]] column with_referenced(const column& from, column::parts& parts) const {
    for (const buffer& each : from.buffers().subspan(parts.type.buffer_count())) {
      parts.buffers.push_back(each.size() == 0 ? each : slab_->plain(bytes_.at(range_of(each))));
    }
    if (from.dictionary() != nullptr) {
      parts.dictionary = dictionaries_[numbers_.at(from.dictionary())].packed;
    }
    return column::make(ctx_, std::move(parts));
  }

  std::shared_ptr<context> ctx_;
  std::vector<plain_bytes> plain_;
  std::vector<std::vector<column>> inputs_; ///< what is joined, one piece each
  std::vector<column> joined_;              ///< one for each input
  const join_slab* slab_ = nullptr;         ///< known while the results are made
  std::map<byte_range, std::size_t> bytes_; ///< index in `plain_` of each buffer of bytes
  std::vector<dictionary> dictionaries_;
  std::map<const column*, std::size_t> numbers_; ///< index in `dictionaries_`
};

} // namespace

std::optional<buffer> find_packed(std::span<const batch> batches) {
  body_finder finder;
  for (const batch& each : batches) {
    if (!std::ranges::all_of(each.columns, [&](const column& of) { return finder.add(of); })) {
      return std::nullopt;
    }
  }
  return finder.body();
}

packed_columns pack_columns(const std::shared_ptr<context>& ctx, std::span<const batch> batches,
                            const std::string& tag) {
  for (const batch& each : batches) {
    for (const column& of : each.columns) {
      if (!of.ctx()->shares_with(*ctx)) {
        throw error(errc::invalid_argument, concat("can't pack a column on ", to_string(of.ctx()->device()),
                                                   " in the context of ", to_string(ctx->device())));
      }
    }
  }
  return column_gatherer(ctx).run(batches, tag);
}

} // namespace saeta
