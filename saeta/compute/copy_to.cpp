#include "saeta/compute/copy_to.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/compact.hpp"
#include "saeta/device/join.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/host_array.hpp"
#include "saeta/transfer/peer_copy.hpp"
#include "saeta/transfer/upload.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace saeta {
namespace {

constexpr std::size_t padding = 64; // as the Arrow format recommends

bool has_memory_of_others(const column& of) {
  const auto external = [](const buffer& each) { return each.present() && each.owner()->external(); };
  return std::ranges::any_of(of.buffers(), external) ||
         std::ranges::any_of(of.children(), has_memory_of_others) ||
         (of.dictionary() != nullptr && has_memory_of_others(*of.dictionary()));
}

/// Places of a column's buffers in the slab.
struct planned {
  const column* from = nullptr;
  row_window rows;
  struct place {
    std::size_t at = 0;
    std::size_t bytes = 0; ///< 0 if absent
    bool shifted = false;  ///< a bitmap that began inside a byte
  };
  std::vector<place> buffers;
  std::vector<planned> children;
};

class column_copier {
public:
  explicit column_copier(std::shared_ptr<context> ctx) : ctx_(std::move(ctx)) {}

  planned plan(const column& from) { return plan_rows(from, from.offset(), from.length()); }

  /// Call it once everything is planned.
  void run(const std::string& tag) {
    const std::size_t bytes = checked_add(shifted_bytes_, other_bytes_, "bytes of copied columns");
    if (bytes == 0) {
      return;
    }
    const stream_ref work = ctx_->work_stream();
    slab_ = buffer::allocate(ctx_, bytes, work, tag);
    const use_token token(work, uses());
    ctx_->copies().fill(token.mutable_data<std::byte>(slab_), 0, shifted_bytes_, work);
    std::vector<join_step> steps = finished_steps(token);
    number_tiles(steps);
    const device_copy<join_step> uploaded(ctx_, steps);
    const use_token described(work, {reads(uploaded.memory())});
    ctx_->kernels().join(work.native_handle(), steps, uploaded.data(described));
  }

  column make(const planned& of) {
    const column& from = *of.from;
    column::parts parts;
    parts.type = from.type();
    parts.length = of.rows.rows - of.rows.offset;
    parts.offset = of.rows.offset;
    parts.null_count = nulls_of_part(from.known_null_count(), from.length(), parts.length);
    for (const planned::place& each : of.buffers) {
      parts.buffers.push_back(each.bytes == 0 ? buffer{} : slab_.slice(in_slab(each), each.bytes));
    }
    for (const planned& child : of.children) {
      parts.children.push_back(make(child));
    }
    parts.dictionary = dictionary_of(from);
    return column::make(ctx_, std::move(parts));
  }

private:
  struct movement {
    buffer source;
    planned::place target;
    int shift = 0; ///< bits before the first one of a bitmap
    std::int64_t rows = 0;
  };
  struct dictionary {
    planned plan;
    std::shared_ptr<const column> made; ///< null until a column asks for it
  };

  planned plan_rows(const column& from, std::int64_t offset, std::int64_t length) {
    planned made;
    made.from = &from;
    made.rows = window_of(from.type(), offset, length);
    for (std::size_t i = 0; i < from.buffers().size(); ++i) {
      made.buffers.push_back(length == 0 ? planned::place{} : add(from, i, made.rows));
    }
    for (const column& child : from.children()) {
      const child_rows all{0, child.length()}; // offsets and run ends are not read
      const child_rows rows =
          select_child_rows(from.type(), made.rows.first, made.rows.rows, all, child.length());
      made.children.push_back(plan_rows(child, child.offset() + rows.first, rows.count));
    }
    if (const column* const values = from.dictionary();
        values != nullptr && has_memory_of_others(*values) && !dictionaries_.contains(values)) {
      dictionary& added = dictionaries_[values];
      added.plan = plan(*values);
    }
    return made;
  }

  static buffer window_of_buffer(const column& from, std::size_t index, const row_window& rows) {
    const buffer& whole = from.buffers()[index];
    if (!whole.present() || from.type().buffer(index).role == buffer_role::bytes) {
      return whole;
    }
    const byte_window w = bytes_of(from.type(), index, rows);
    return whole.slice(w.offset, w.bytes);
  }

  planned::place add(const column& from, std::size_t index, const row_window& rows) {
    buffer source = window_of_buffer(from, index, rows);
    if (!source.present() || source.size() == 0) {
      return {};
    }
    const int shift = bit_shift(from.type(), index, rows);
    planned::place made{0, source.size(), shift != 0};
    if (made.shifted) {
      made.bytes = static_cast<std::size_t>((rows.rows + 7) / 8);
    }
    std::size_t& used = made.shifted ? shifted_bytes_ : other_bytes_;
    made.at = used;
    used = checked_add(used, round_up(made.bytes, padding), "bytes of copied columns");
    movements_.push_back({std::move(source), made, shift, rows.rows});
    return made;
  }

  /// Shifted bitmaps come first, so that one fill clears them. The kernel expects them cleared.
  [[nodiscard]] std::size_t in_slab(const planned::place& of) const {
    return (of.shifted ? 0 : shifted_bytes_) + of.at;
  }

  [[nodiscard]] std::vector<use> uses() const {
    storage_reads made;
    for (const movement& each : movements_) {
      made.add(each.source);
    }
    made.uses().push_back(writes(slab_));
    return std::move(made.uses());
  }

  /// Takes addresses, so a token must hold the buffers.
  [[nodiscard]] std::vector<join_step> finished_steps(const use_token& token) const {
    auto* const slab = token.mutable_data<std::byte>(slab_);
    std::vector<join_step> steps;
    for (const movement& each : movements_) {
      join_step& copied = steps.emplace_back();
      copied.source = reinterpret_cast<const std::byte*>(each.source.address());
      copied.target = slab + in_slab(each.target);
      if (each.target.shifted) {
        copied.kind = join_kind::bits;
        copied.bits.source_first = each.shift;
        copied.count = each.rows;
        continue;
      }
      copied.count = static_cast<std::int64_t>(each.source.size());
      copied.copy.zeros =
          static_cast<std::int64_t>(round_up(each.source.size(), padding) - each.source.size());
    }
    return steps;
  }

  std::shared_ptr<const column> dictionary_of(const column& from) {
    const column* const values = from.dictionary();
    if (values == nullptr) {
      return nullptr;
    }
    const auto copied = dictionaries_.find(values);
    if (copied == dictionaries_.end()) {
      return std::make_shared<const column>(*values);
    }
    if (copied->second.made == nullptr) {
      copied->second.made = std::make_shared<const column>(make(copied->second.plan));
    }
    return copied->second.made;
  }

  std::shared_ptr<context> ctx_;
  std::size_t shifted_bytes_ = 0;
  std::size_t other_bytes_ = 0;
  std::vector<movement> movements_;
  std::map<const column*, dictionary> dictionaries_; ///< only those that are copied
  buffer slab_;
};

} // namespace

std::vector<column> copy_columns(const std::shared_ptr<context>& ctx, std::span<const column> columns,
                                 const std::string& tag) {
  require_argument(ctx, "ctx");
  column_copier copier(ctx);
  std::vector<planned> plans;
  for (const column& each : columns) {
    if (!each.ctx()->shares_with(*ctx)) {
      throw error(errc::invalid_argument, concat("can't copy a column on ", to_string(each.ctx()->device()),
                                                 " in the context of ", to_string(ctx->device())));
    }
    plans.push_back(copier.plan(each));
  }
  copier.run(tag);
  std::vector<column> made;
  std::ranges::transform(plans, std::back_inserter(made), [&](const planned& of) { return copier.make(of); });
  return made;
}

namespace {

constexpr const char* label = "copy";

/// All memory of a table, to be read.
std::vector<use> reads_of(const table& source) {
  storage_reads memory;
  for (const batch& each : source.batches()) {
    for (const column& piece : each.columns) {
      append_reads(piece, memory);
    }
  }
  return std::move(memory.uses());
}

std::vector<batch> uploaded(const table& source, const std::shared_ptr<context>& target) {
  use_token token(source.ctx()->work_stream(), reads_of(source)); // waits for writes, and blocks new ones
  dictionary_cache dictionaries;
  std::vector<batch> made;
  for (const batch& each : source.batches()) {
    made.push_back(
        upload(target, view_in_place(each), dictionaries, {.tag = label, .readable = {}, .file = {}}));
  }
  token.finish();
  return made;
}

std::vector<batch> downloaded(const table& source, const std::shared_ptr<context>& target) {
  dictionary_cache dictionaries;
  std::vector<batch> made;
  for (const host_batch& each : download(source.ctx(), source.batches())) {
    made.push_back(adopt(target, each, dictionaries, {.tag = label}));
  }
  return made;
}

/// Bytes of batches that lie in host memory at once.
constexpr std::uint64_t staged_bytes = std::uint64_t{256} << 20;

bool reaches(const context& target, const context& source) {
  return source.on_host() || target.device_backend()->can_access_peer(*source.device_backend());
}

} // namespace

std::vector<batch> copy_through_host(const table& source, const std::shared_ptr<context>& target) {
  require_argument(target, "target");
  const std::span<const batch> batches = source.batches();
  use_token token(source.ctx()->work_stream(), reads_of(source)); // no write comes between two windows
  std::vector<batch> made;
  for (std::size_t first = 0; first < batches.size();) {
    const std::size_t end = end_of_window(batches, first, staged_bytes);
    dictionary_cache dictionaries; // of the window: it keeps the window's host memory
    for (const host_batch& each : download(source.ctx(), batches.subspan(first, end - first))) {
      made.push_back(upload(target, each, dictionaries, {.tag = label, .readable = {}, .file = {}}));
    }
    first = end;
  }
  token.finish();
  target->copies().count().staged.fetch_add(1, std::memory_order_relaxed);
  return made;
}

table copy_to(const table& source, const std::shared_ptr<context>& target) {
  require_argument(target, "target");
  const std::shared_ptr<context>& from = source.ctx();
  if (from->shares_with(*target)) {
    return table::make(target, source.fields(), {source.batches().begin(), source.batches().end()});
  }
  const table moved = compact(source);
  std::vector<batch> made;
  if (from->on_host() != target->on_host()) {
    made = target->on_host() ? downloaded(moved, target) : uploaded(moved, target);
  } else {
    made = reaches(*target, *from) ? copy_from_peer(moved, target, label) : copy_through_host(moved, target);
  }
  return table::make(target, source.fields(), std::move(made));
}

} // namespace saeta
