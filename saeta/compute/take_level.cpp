#include "saeta/compute/take_level.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/compute/alignment.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/staging/kernel_step.hpp"

#include <algorithm>
#include <limits>

namespace saeta {
namespace {

constexpr const char* label = "take";
constexpr std::int32_t union_offset_bytes = 4;
constexpr std::int32_t view_bytes = 16;
constexpr std::int32_t start_bytes = 4;
constexpr std::int64_t most_view_bytes = std::numeric_limits<std::int32_t>::max(); ///< of one buffer
/// A launch of fewer tiles leaves multiprocessors idle. Rows of few values are read once for each column.
constexpr std::int64_t least_tiles = 2048;
/// Columns of a group are read at random places by turns. If they do not stay in the cache of the device
/// together, one after the other is faster: 4.35 in place of 4.70 ms for 8M rows of 16 columns of 32M rows
/// (H200).
constexpr std::int64_t most_group_bytes = 64 << 20;

const void* address_of_buffer(const column& of, std::size_t index) {
  return reinterpret_cast<const void*>(of.buffers()[index].address());
}

bool may_have_own_nulls(const column& of) { return of.validity().present() && of.known_null_count() != 0; }

bool needs_validity(const taken_node& node) {
  return node.rows->nullable || std::ranges::any_of(node.pieces, [](const taken_piece& piece) {
           return may_have_own_nulls(*piece.of);
         });
}

/// The number of bytes, child rows or runs that the entries of a column can refer to.
std::int64_t referred_of(const column& of, std::size_t child) {
  switch (of.type().layout()) {
  case layout_kind::bytes:
    return static_cast<std::int64_t>(of.bytes().size());
  case layout_kind::list:
  case layout_kind::list_view:
  case layout_kind::dense_union:
  case layout_kind::run_ends:
    return of.children()[child].length();
  default:
    return 0;
  }
}

take_source source_of(const taken_piece& piece, std::size_t child = 0) {
  const column& of = *piece.of;
  const layout_kind layout = of.type().layout();
  take_source source{.first = piece.first, .count = piece.rows, .limit = referred_of(of, child)};
  if (layout == layout_kind::run_ends) {
    const column& ends = of.children()[0];
    source.values =
        static_cast<const std::byte*>(address_of_buffer(ends, 1)) + ends.offset() * ends.type().byte_width();
    return source;
  }
  source.validity =
      may_have_own_nulls(of) ? static_cast<const std::uint8_t*>(address_of_buffer(of, 0)) : nullptr;
  const std::size_t values = of.type().has_validity() ? 1 : 0;
  if (of.type().buffer_count() > values) {
    source.values = address_of_buffer(of, values);
  }
  if (of.type().buffer_count() > values + 1) {
    source.second = address_of_buffer(of, values + 1);
  }
  return source;
}

/// Bytes that a kernel can move at once: a power of two that divides the size and the addresses of the
/// values.
std::int32_t unit_of(const taken_node& node, std::int32_t bytes) {
  constexpr std::uintptr_t most = 16;
  std::uintptr_t all = most | static_cast<std::uintptr_t>(bytes);
  for (const taken_piece& piece : node.pieces) {
    all |= reinterpret_cast<std::uintptr_t>(source_of(piece).values);
  }
  return static_cast<std::int32_t>(all & (~all + 1));
}

/// Refuses misaligned sources of kinds whose numbers a device's kernel loads as a whole.
void require_aligned(const take_step& step, const take_source& from) {
  const bool of_union = step.kind == take_kind::union_rows; // type ids have one byte
  if (!of_union) {
    require_alignment("taking rows", from.values, step.width);
  }
  if (of_union || step.kind == take_kind::list_views) {
    require_alignment("taking rows", from.second, step.width);
  }
}

} // namespace

take_level::view_buffers::view_buffers(const std::shared_ptr<context>& ctx, const taken_node& node)
    : numbers([&] {
        std::vector<std::int64_t> values;
        for (const taken_piece& piece : node.pieces) {
          const auto behind = piece.of->buffers().subspan(node.type->buffer_count());
          for (const buffer& buffer : behind) {
            values.push_back(static_cast<std::int64_t>(buffer.size()));
          }
          for (const buffer& buffer : behind) {
            values.push_back(static_cast<std::int64_t>(buffer.address()));
          }
        }
        return values;
      }()),
      uploaded(ctx, numbers) {}

void take_level::add(taken_node& node) {
  if (node.length == 0) {
    return;
  }
  placed made;
  made.node = &node;
  made.first_counted = counted_.size();
  const data_type& type = *node.type;
  switch (type.layout()) {
  case layout_kind::bytes:
  case layout_kind::list:
    add_counted(made, take_kind::offsets, type.buffer(1).width);
    break;
  case layout_kind::views:
    if (node.owns_bytes) {
      made.behind = std::make_shared<const view_buffers>(ctx_, node);
      add_counted(made, take_kind::own_views, view_bytes);
    }
    break;
  case layout_kind::list_view:
    add_counted(made, take_kind::list_views, type.buffer(1).width);
    break;
  case layout_kind::dense_union:
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      add_counted(made, take_kind::union_rows, union_offset_bytes);
    }
    break;
  case layout_kind::run_ends:
    if (node.has_runs) {
      add_counted(made, take_kind::run_ends, type.children()[0].type.byte_width());
    }
    break;
  default:
    break;
  }
  placed_.push_back(std::move(made));
  if (type.layout() == layout_kind::structure || type.layout() == layout_kind::sparse_union) {
    for (taken_node& child : node.children) {
      child.rows = node.rows;
      child.length = node.length;
      add(child);
    }
  }
}

take_step take_level::step_of(take_kind kind, const placed& of, std::int32_t width) const {
  take_step step;
  step.kind = kind;
  step.width = width;
  step.count = of.node->length;
  step.rows = of.node->rows->data();
  return step;
}

void take_level::set_sources(take_step& step, const placed& of, std::size_t child) {
  const taken_node& node = *of.node;
  const bool aligned = !ctx_->on_host() && step.kind != take_kind::values && step.kind != take_kind::bits &&
                       step.kind != take_kind::validity;
  short_list<take_source, 1> sources;
  const bool owns = step.kind == take_kind::own_views || step.kind == take_kind::view_bytes;
  const use_token described(ctx_->work_stream(),
                            {reads(of.behind ? of.behind->uploaded.memory() : buffer())});
  const std::int64_t* table = owns ? of.behind->uploaded.data(described) : nullptr;
  std::int64_t buffers = 0;
  for (const taken_piece& piece : node.pieces) {
    take_source& source = sources.emplace_back(source_of(piece, child));
    const std::int64_t own =
        std::ssize(piece.of->buffers()) - static_cast<std::int64_t>(node.type->buffer_count());
    if (owns) {
      source.second = table;
      source.limit = own;
      table += 2 * own;
    } else if (step.kind == take_kind::views) {
      source.limit = buffers;
      buffers += own;
    }
    if (aligned) {
      require_aligned(step, source);
    }
  }
  runner_.set_pieces(step, sources);
}

void take_level::add_counted(placed& made, take_kind kind, std::int32_t width) {
  take_step step = step_of(kind, made, width);
  if (kind == take_kind::union_rows) {
    step.code = made.node->type->type_codes()[made.counted];
    step.units = made.counted == 0 ? 1 : 0; // null rows belong to the first child
  }
  if (kind != take_kind::run_ends) {
    set_sources(step, made, kind == take_kind::union_rows ? made.counted : 0);
  }
  ++made.counted;
  counted_.push_back(step);
}

std::int64_t take_level::total_of(const placed& of, std::size_t index) const {
  return counts_[of.first_counted + index].total;
}

void take_level::require_counts(const placed& of) const {
  const data_type& type = *of.node->type;
  const counted_limit limit = of.node->owns_bytes && type.has_variadic_buffers()
                                  ? counted_limit{counted_rows::pointed, most_view_bytes}
                                  : limit_of(type);
  if (limit.what == counted_rows::own && of.node->length > limit.most) {
    throw error(errc::overflow, concat("taking rows of a column of ", type.name(), ": ", of.node->length,
                                       " rows, its run ends count ", limit.most));
  }
  for (std::size_t i = 0; i < of.counted; ++i) {
    const taken_count& count = counts_[of.first_counted + i];
    if (count.bad_row != no_row) {
      throw error(errc::format, concat("taking rows of a column of ", type.name(), ": row ", count.bad_row,
                                       " of the result refers to something outside of the column"));
    }
    if (limit.what != counted_rows::nothing && count.total > limit.most) {
      throw error(errc::overflow, concat("taking rows of a column of ", type.name(), ": they refer to ",
                                         count.total, " values, its offsets count ", limit.most));
    }
  }
}

void take_level::make_rows(placed& made, std::int64_t rows, bool nullable) {
  auto fresh = std::make_shared<selected_rows>(allocate_rows(ctx_, rows));
  fresh->nullable = nullable;
  made.made.push_back(std::move(fresh));
}

void take_level::lay_out(placed& made) {
  const taken_node& node = *made.node;
  const data_type& type = *node.type;
  const std::int64_t pointed = made.counted == 0 ? 0 : total_of(made);
  made.buffers.resize(type.buffer_count());
  for (std::size_t i = 0; i < made.buffers.size(); ++i) {
    if (type.buffer(i).role != buffer_role::validity || needs_validity(node)) {
      made.buffers[i] = plan_.add_buffer(type, i, node.length, pointed);
    }
  }
  switch (type.layout()) {
  case layout_kind::views:
    if (node.owns_bytes) {
      made.starts = buffer::allocate(ctx_, static_cast<std::size_t>(node.length) * start_bytes,
                                     ctx_->work_stream(), label);
      made.bytes = plan_.add_place(static_cast<std::size_t>(pointed));
    }
    return;
  case layout_kind::list:
  case layout_kind::list_view:
    return make_rows(made, pointed, false);
  case layout_kind::fixed_list:
    return make_rows(made,
                     checked_mul(node.length, std::int64_t{type.list_size()}, "rows of fixed-size lists"),
                     node.rows->nullable);
  case layout_kind::dense_union:
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      make_rows(made, total_of(made, i), i == 0 && node.rows->nullable);
    }
    return;
  case layout_kind::run_ends:
    if (node.has_runs) {
      made.run_ends = plan_.add_place(static_cast<std::size_t>(pointed) *
                                      static_cast<std::size_t>(type.children()[0].type.byte_width()));
    }
    return make_rows(made, node.has_runs ? pointed : node.length, node.rows->nullable);
  default:
    return;
  }
}

/// The rows that nodes follow. Columns of a table follow the same ones.
std::vector<use> take_level::uses_of_rows() const {
  std::vector<use> uses;
  const selected_rows* last = nullptr;
  for (const placed& each : placed_) {
    if (each.node->rows.get() != last) {
      last = each.node->rows.get();
      uses.push_back(reads(buffer(last->memory.owner())));
    }
  }
  return uses;
}

std::vector<use> take_level::uses() const {
  std::vector<use> uses = uses_of_rows();
  uses.push_back(writes(slab_));
  for (const placed& each : placed_) {
    for (const auto& rows : each.made) {
      uses.push_back(writes(rows->memory));
    }
    uses.push_back(writes(each.starts));
    if (each.behind) {
      uses.push_back(reads(each.behind->uploaded.memory()));
    }
  }
  return uses;
}

void* take_level::address_of(const slab_place& place) const {
  return reinterpret_cast<std::byte*>(slab_.address()) + plan_.byte_of(place);
}

buffer take_level::in_slab(const slab_place& place) const {
  return place.present() ? slab_.slice(static_cast<std::size_t>(plan_.byte_of(place)),
                                       static_cast<std::size_t>(place.bytes))
                         : buffer();
}

void take_level::add_values(const placed& of, std::size_t index) {
  const data_type& type = *of.node->type;
  const std::int32_t bytes = type.buffer(index).width;
  if (!of.buffers[index].present()) {
    return; // the values have 0 bytes
  }
  take_step step = step_of(take_kind::values, of, unit_of(*of.node, bytes));
  step.units = bytes / step.width;
  step.code = type.type_codes().empty() ? std::int8_t{0} : type.type_codes().front();
  step.target = address_of(of.buffers[index]);
  set_sources(step, of);
  values_[step.rows].push_back(step);
}

void take_level::add_view_bytes(const placed& of) {
  if (total_of(of) == 0) {
    return;
  }
  take_step step = step_of(take_kind::view_bytes, of, start_bytes);
  set_sources(step, of);
  step.count = total_of(of);
  step.target = address_of(of.bytes);
  step.starts = reinterpret_cast<const void*>(of.starts.address());
  step.lists = of.node->length;
  late_.push_back(step);
}

void take_level::add_late(take_kind kind, const placed& of, void* target) {
  if (total_of(of) == 0) {
    return;
  }
  take_step step = step_of(kind, of, of.node->type->buffer(1).width);
  set_sources(step, of);
  step.count = total_of(of);
  step.target = target;
  step.starts = address_of(of.buffers[1]);
  step.lists = of.node->length;
  late_.push_back(step);
}

void take_level::add_steps(placed& of) {
  taken_node& node = *of.node;
  const data_type& type = *node.type;
  const auto add = [&](take_kind kind, std::int32_t width, void* target) {
    take_step step = step_of(kind, of, width);
    step.target = target;
    set_sources(step, of);
    steps_.push_back(step);
  };
  if (type.has_validity() && of.buffers[0].present()) {
    add(take_kind::validity, 0, address_of(of.buffers[0]));
  }
  const std::span<take_step> counted(counted_.data() + of.first_counted, of.counted);
  switch (type.layout()) {
  case layout_kind::bits:
    return add(take_kind::bits, 0, address_of(of.buffers[1]));
  case layout_kind::fixed:
    return add_values(of, 1);
  case layout_kind::views:
    if (!node.owns_bytes) {
      return add(take_kind::views, view_bytes, address_of(of.buffers[1]));
    }
    counted[0].target = address_of(of.buffers[1]);
    counted[0].second = reinterpret_cast<void*>(of.starts.address());
    return add_view_bytes(of);
  case layout_kind::bytes:
    counted[0].target = address_of(of.buffers[1]);
    return add_late(take_kind::bytes, of, of.buffers[2].present() ? address_of(of.buffers[2]) : nullptr);
  case layout_kind::list_view:
    counted[0].second = address_of(of.buffers[2]);
    [[fallthrough]];
  case layout_kind::list:
    counted[0].target = address_of(of.buffers[1]);
    return add_late(take_kind::list_rows, of, of.made[0]->data());
  case layout_kind::fixed_list:
    if (of.made[0]->count != 0) {
      take_step step = step_of(take_kind::fixed_rows, of, 0);
      step.units = type.list_size();
      step.count = of.made[0]->count;
      step.target = of.made[0]->data();
      steps_.push_back(step);
    }
    return;
  case layout_kind::dense_union:
    for (std::size_t i = 0; i < counted.size(); ++i) {
      counted[i].target = address_of(of.buffers[1]);
      counted[i].second = of.made[i]->data();
    }
    [[fallthrough]];
  case layout_kind::sparse_union:
    return add_values(of, 0);
  case layout_kind::run_ends:
    if (!node.has_runs) {
      return add(take_kind::runs, type.children()[0].type.byte_width(), of.made[0]->data());
    }
    counted[0].target = address_of(of.run_ends);
    counted[0].second = of.made[0]->data();
    return;
  default:
    return;
  }
}

/// Columns that read the same rows form groups, but small ones if there are few rows.
std::vector<take_step> take_level::grouped_values() const {
  std::vector<take_step> steps;
  steps.reserve(placed_.size());
  for (const auto& [rows, columns] : values_) {
    const take_step& one = columns.front();
    const std::int64_t tiles = count_tiles(one) * std::ssize(columns);
    const std::int64_t column_bytes = std::max<std::int64_t>(one.from.count * one.width * one.units, 1);
    const std::int64_t most = std::min(tiles / least_tiles, most_group_bytes / column_bytes);
    const std::size_t of_group = std::clamp<std::size_t>(static_cast<std::size_t>(most), 1, columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) {
      steps.push_back(columns[i]);
      steps.back().columns =
          i % of_group == 0 ? static_cast<std::int32_t>(std::min(of_group, columns.size() - i)) : 0;
    }
  }
  return steps;
}

/// Slabs and rows begin at multiples of 64 bytes, but the ends of buffers do not.
void take_level::plan_padding() {
  // Up to this size, one fill of everything is faster than a kernel with many small fills.
  constexpr std::size_t few_bytes = 1 << 20;
  plan_.clear_padding();
  scatter_plan& plan = plan_.plan();
  if (plan.slab_bytes <= few_bytes && !plan.fills.empty()) {
    plan.zeroed_bytes = plan.slab_bytes;
    plan.fills.clear();
  }
}

void take_level::clear_padding() {
  const stream_ref work = ctx_->work_stream();
  auto* const slab = reinterpret_cast<std::byte*>(slab_.address());
  std::vector<join_step> steps;
  for (const scatter_step& step : plan_.plan().fills) {
    steps.push_back(kernel_step(step, nullptr, slab, nullptr));
  }
  if (steps.empty()) {
    return;
  }
  number_tiles(steps);
  const device_copy<join_step> uploaded(ctx_, steps);
  use_token described(work, {reads(uploaded.memory())});
  ctx_->kernels().join(work.native_handle(), steps, uploaded.data(described));
  described.finish();
}

void take_level::queue() {
  plan_padding();
  const std::size_t bytes = plan_.plan().slab_bytes;
  if (bytes != 0) {
    slab_ = buffer::allocate(ctx_, bytes, ctx_->work_stream(), label);
  }
  use_token token(ctx_->work_stream(), uses());
  if (plan_.plan().zeroed_bytes != 0) {
    ctx_->copies().fill(token.span<std::byte>(slab_).data(), 0, plan_.plan().zeroed_bytes,
                        ctx_->work_stream());
  }
  for (placed& each : placed_) {
    add_steps(each);
  }
  std::vector<take_step> first = grouped_values();
  first.insert(first.end(), steps_.begin(), steps_.end());
  first.insert(first.end(), counted_.begin(), counted_.end());
  runner_.run(first, late_);
  clear_padding();
  token.finish();
}

void take_level::name_children(placed& of) {
  taken_node& node = *of.node;
  for (const slab_place& buffer : of.buffers) {
    node.buffers.push_back(in_slab(buffer));
  }
  if (of.behind && of.bytes.bytes != 0) {
    node.buffers.push_back(in_slab(of.bytes));
  }
  if (of.made.empty()) {
    return;
  }
  if (node.type->layout() == layout_kind::run_ends && !node.has_runs) {
    node.rows = of.made[0];
    node.has_runs = true;
    node.buffers = {};
    next_.push_back(&node);
    return;
  }
  node.run_ends = in_slab(of.run_ends);
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    taken_node& child = node.children[i];
    child.rows = of.made[i];
    child.length = of.made[i]->count;
    next_.push_back(&child);
  }
}

std::vector<taken_node*> take_level::run() {
  if (!counted_.empty()) {
    std::vector<use> read = uses_of_rows();
    for (const placed& each : placed_) {
      if (each.behind) {
        read.push_back(reads(each.behind->uploaded.memory()));
      }
    }
    use_token token(ctx_->work_stream(), read);
    counts_ = runner_.count(counted_);
    token.finish();
  }
  for (placed& each : placed_) {
    require_counts(each);
    lay_out(each);
  }
  plan_.end_layout();
  queue();
  for (placed& each : placed_) {
    name_children(each);
  }
  return std::move(next_);
}

} // namespace saeta
