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
  const auto external = [](const buffer& buffer) { return buffer.present() && buffer.owner()->external(); };
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
    ctx_->copies().fill(token.span<std::byte>(slab_).data(), 0, shifted_bytes_, work);
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
    for (const planned::place& place : of.buffers) {
      parts.buffers.push_back(place.bytes == 0 ? buffer{} : slab_.slice(in_slab(place), place.bytes));
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
    planned result;
    result.from = &from;
    result.rows = window_of(from.type(), offset, length);
    for (std::size_t i = 0; i < from.buffers().size(); ++i) {
      result.buffers.push_back(length == 0 ? planned::place{} : add(from, i, result.rows));
    }
    for (const column& child : from.children()) {
      const child_rows all{0, child.length()}; // offsets and run ends are not read
      const child_rows rows =
          select_child_rows(from.type(), result.rows.first, result.rows.rows, all, child.length());
      result.children.push_back(plan_rows(child, child.offset() + rows.first, rows.count));
    }
    if (const column* const values = from.dictionary();
        values != nullptr && has_memory_of_others(*values) && !dictionaries_.contains(values)) {
      dictionary& added = dictionaries_[values];
      added.plan = plan(*values);
    }
    return result;
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
    planned::place place{0, source.size(), shift != 0};
    if (place.shifted) {
      place.bytes = static_cast<std::size_t>((rows.rows + 7) / 8);
    }
    std::size_t& used = place.shifted ? shifted_bytes_ : other_bytes_;
    place.at = used;
    used = checked_add(used, round_up(place.bytes, padding), "bytes of copied columns");
    movements_.push_back({std::move(source), place, shift, rows.rows});
    return place;
  }

  /// Shifted bitmaps come first, so that one fill clears them. The kernel expects them cleared.
  [[nodiscard]] std::size_t in_slab(const planned::place& of) const {
    return (of.shifted ? 0 : shifted_bytes_) + of.at;
  }

  [[nodiscard]] std::vector<use> uses() const {
    storage_reads reads;
    for (const movement& movement : movements_) {
      reads.add(movement.source);
    }
    reads.uses().push_back(writes(slab_));
    return std::move(reads.uses());
  }

  /// Takes addresses, so a token must hold the buffers.
  [[nodiscard]] std::vector<join_step> finished_steps(const use_token& token) const {
    auto* const slab = token.span<std::byte>(slab_).data();
    std::vector<join_step> steps;
    for (const movement& movement : movements_) {
      join_step& copied = steps.emplace_back();
      copied.source = reinterpret_cast<const std::byte*>(movement.source.address());
      copied.target = slab + in_slab(movement.target);
      if (movement.target.shifted) {
        copied.kind = join_kind::bits;
        copied.bits.source_first = movement.shift;
        copied.count = movement.rows;
        continue;
      }
      copied.count = static_cast<std::int64_t>(movement.source.size());
      copied.copy.zeros =
          static_cast<std::int64_t>(round_up(movement.source.size(), padding) - movement.source.size());
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
  std::map<const column*, dictionary> dictionaries_; ///< dictionaries that are copied
  buffer slab_;
};

} // namespace

std::vector<column> copy_columns(const std::shared_ptr<context>& ctx, std::span<const column> columns,
                                 const std::string& tag) {
  require_argument(ctx, "ctx");
  column_copier copier(ctx);
  std::vector<planned> plans;
  for (const column& column : columns) {
    if (!column.ctx()->shares_with(*ctx)) {
      throw error(errc::invalid_argument, concat("can't copy a column on ", to_string(column.ctx()->device()),
                                                 " in the context of ", to_string(ctx->device())));
    }
    plans.push_back(copier.plan(column));
  }
  copier.run(tag);
  std::vector<column> result;
  std::ranges::transform(plans, std::back_inserter(result),
                         [&](const planned& of) { return copier.make(of); });
  return result;
}

namespace {

constexpr const char* label = "copy";

/// All memory of a table, to be read.
std::vector<use> reads_of(const table& source) {
  storage_reads memory;
  for (const batch& batch : source.batches()) {
    for (const column& piece : batch.columns) {
      append_reads(piece, memory);
    }
  }
  return std::move(memory.uses());
}

std::vector<batch> uploaded(const table& source, const std::shared_ptr<context>& target) {
  use_token token(source.ctx()->work_stream(), reads_of(source)); // waits for writes, and blocks new ones
  dictionary_cache dictionaries;
  std::vector<batch> batches;
  for (const batch& batch : source.batches()) {
    batches.push_back(
        upload(target, view_in_place(batch), dictionaries, {.tag = label, .readable = {}, .file = {}}));
  }
  token.finish();
  return batches;
}

std::vector<batch> downloaded(const table& source, const std::shared_ptr<context>& target) {
  dictionary_cache dictionaries;
  std::vector<batch> batches;
  for (const host_batch& batch : download(source.ctx(), source.batches())) {
    batches.push_back(adopt(target, batch, dictionaries, {.tag = label}));
  }
  return batches;
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
  std::vector<batch> result;
  for (std::size_t first = 0; first < batches.size();) {
    const std::size_t end = end_of_window(batches, first, staged_bytes);
    dictionary_cache dictionaries; // of the window: it keeps the window's host memory
    for (const host_batch& batch : download(source.ctx(), batches.subspan(first, end - first))) {
      result.push_back(upload(target, batch, dictionaries, {.tag = label, .readable = {}, .file = {}}));
    }
    first = end;
  }
  token.finish();
  target->copies().count().staged.fetch_add(1, std::memory_order_relaxed);
  return result;
}

table copy_to(const table& source, const std::shared_ptr<context>& target) {
  require_argument(target, "target");
  const std::shared_ptr<context>& from = source.ctx();
  if (from->shares_with(*target)) {
    return table::make(target, source.fields(), {source.batches().begin(), source.batches().end()});
  }
  const table moved = compact(source);
  std::vector<batch> batches;
  if (from->on_host() != target->on_host()) {
    batches = target->on_host() ? downloaded(moved, target) : uploaded(moved, target);
  } else {
    batches =
        reaches(*target, *from) ? copy_from_peer(moved, target, label) : copy_through_host(moved, target);
  }
  return table::make(target, source.fields(), std::move(batches));
}

} // namespace saeta
