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

/// Copies columns into one slab. Joins leave dictionaries and the bytes behind views in place. So these are
/// joined like columns of their own, and the results are then put in their places.
class column_gatherer {
public:
  explicit column_gatherer(std::shared_ptr<context> ctx) : ctx_(std::move(ctx)) {}

  packed_columns run(std::span<const column> columns, const std::string& tag) {
    for (const column& each : columns) {
      add(each);
    }
    const std::size_t first = inputs_.size();
    for (const column& each : columns) {
      inputs_.push_back({each});
    }
    packed_columns made;
    join(tag, made.body);
    for (dictionary& each : dictionaries_) {
      each.packed = std::make_shared<const column>(complete(*each.from, joined_[each.input]));
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      made.columns.push_back(complete(columns[i], joined_[first + i]));
    }
    return made;
  }

private:
  struct dictionary {
    const column* from = nullptr;
    std::size_t input = 0;
    std::shared_ptr<const column> packed{};
  };
  using byte_range = std::pair<std::uintptr_t, std::size_t>;

  static byte_range range_of(const buffer& of) { return {of.address(), of.size()}; }

  /// Adds the dictionaries and the bytes behind views of a column. Dictionaries inside the values of another
  /// one come first.
  void add(const column& of) {
    if (of.length() == 0) {
      return;
    }
    const std::size_t own = of.type().buffer_count();
    for (const buffer& each : of.buffers().subspan(own)) {
      if (each.size() != 0 && bytes_.try_emplace(range_of(each), inputs_.size()).second) {
        inputs_.push_back({as_bytes(each)});
      }
    }
    for (const column& child : of.children()) {
      add(child);
    }
    const column* const values = of.dictionary();
    if (values != nullptr && numbers_.try_emplace(values, 0).second) {
      add(*values);
      numbers_[values] = dictionaries_.size();
      dictionaries_.push_back({values, inputs_.size()});
      inputs_.push_back({*values});
    }
  }

  [[nodiscard]] column as_bytes(const buffer& of) const {
    column::parts parts;
    parts.type = data_type(type_id::uint8);
    parts.length = checked_cast<std::int64_t>(of.size(), "bytes of a buffer");
    parts.null_count = 0;
    parts.buffers = {buffer(), of};
    return column::make(ctx_, std::move(parts));
  }

  /// Joins each input as a group of one piece, all in one slab.
  void join(const std::string& tag, buffer& body) {
    std::vector<join_node> nodes = join_nodes(ctx_, inputs_);
    for (join_node& node : nodes) {
      node.begin_group();
      node.take(0);
    }
    join_slab slab(ctx_, nodes, 0, 1, tag);
    joined_ = slab.columns();
    body = slab.slab();
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
    const std::size_t own = parts.type.buffer_count();
    for (std::size_t i = 0; i < joined.buffers().size(); ++i) {
      const buffer& each = joined.buffers()[i];
      parts.buffers.push_back(i < own || each.size() == 0 ? each
                                                          : joined_[bytes_.at(range_of(each))].buffers()[1]);
    }
    for (std::size_t i = 0; i < joined.children().size(); ++i) {
      parts.children.push_back(complete(from.children()[i], joined.children()[i]));
    }
    if (from.dictionary() != nullptr) {
      parts.dictionary = dictionaries_[numbers_.at(from.dictionary())].packed;
    }
    return column::make(ctx_, std::move(parts));
  }

  std::shared_ptr<context> ctx_;
  std::vector<std::vector<column>> inputs_;
  std::vector<column> joined_;              ///< one for each input
  std::map<byte_range, std::size_t> bytes_; ///< input of each buffer of bytes
  std::vector<dictionary> dictionaries_;
  std::map<const column*, std::size_t> numbers_; ///< index in `dictionaries_`
};

} // namespace

packed_columns pack_columns(const std::shared_ptr<context>& ctx, std::span<const column> columns,
                            const std::string& tag) {
  for (const column& each : columns) {
    if (!each.ctx()->shares_with(*ctx)) {
      throw error(errc::invalid_argument, concat("can't pack a column on ", to_string(each.ctx()->device()),
                                                 " in the context of ", to_string(ctx->device())));
    }
  }
  body_finder finder;
  if (std::ranges::all_of(columns, [&](const column& each) { return finder.add(each); })) {
    if (auto body = finder.body()) {
      return {{columns.begin(), columns.end()}, std::move(*body)};
    }
  }
  return column_gatherer(ctx).run(columns, tag);
}

} // namespace saeta
