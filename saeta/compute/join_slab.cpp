#include "saeta/compute/join_slab.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/compute/alignment.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/staging/kernel_step.hpp"
#include "saeta/transfer/host_array.hpp"
#include "saeta/transfer/upload.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace saeta {
namespace {

/// Bytes of the first part that a device copies while the host goes on with the next one. Each part is twice
/// as large as the one before it, so that the device begins early and there are few launches.
constexpr std::size_t first_part = std::size_t{16} << 20;

/// Null count of a span; column::unknown_nulls if it has to be counted.
std::int64_t nulls_of(const join_span& span) {
  return nulls_of_part(span.of->known_null_count(), span.of->length(), span.rows);
}

/// Whether the validity of a span is read. If it is not, all of its rows are valid.
bool copies_validity(const join_span& span) { return span.of->validity().present() && nulls_of(span) != 0; }

/// The runs that contain the rows of a span.
/// @param row_base  number of runs in the group before them
piece_rows runs_of(const join_span& span, std::int64_t row_base) {
  const column& ends = span.of->children()[0];
  piece_rows rows;
  rows.first = ends.offset() + span.pointed_first;
  rows.rows = span.pointed;
  rows.row_base = row_base;
  rows.at[1] = ends.buffers()[1].address();
  return rows;
}

} // namespace

join_slab::join_slab(std::shared_ptr<context> ctx, std::vector<join_node>& nodes, std::size_t first,
                     std::size_t end, std::string tag, std::span<const plain_bytes> plain)
    : ctx_(std::move(ctx)), nodes_(nodes), first_(first), end_(end), tag_(std::move(tag)), plain_(plain),
      plan_("bytes of joined columns") {}

/// A validity is needed if a span has nulls or may have some.
void join_slab::lay_out_validity(joined& made) {
  bool needed = false;
  bool unknown = false;
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    const std::int64_t nulls = nulls_of(span);
    needed = needed || nulls != 0;
    unknown = unknown || nulls < 0;
    made.nulls += std::max(nulls, std::int64_t{0});
  });
  if (!needed) {
    return;
  }
  made.buffers[0] = plan_.add_buffer(*made.node->type, 0, made.node->rows, 0);
  if (unknown) {
    made.counter = plan_.add_counter();
  }
}

join_slab::joined join_slab::lay_out(join_node& node) {
  joined result;
  result.node = &node;
  const data_type& type = *node.type;
  result.buffers.resize(type.buffer_count());
  for (std::size_t i = 0; i < result.buffers.size() && node.rows != 0; ++i) {
    if (type.buffer(i).role == buffer_role::validity) {
      lay_out_validity(result);
    } else {
      result.buffers[i] = plan_.add_buffer(type, i, node.rows, node.pointed);
    }
  }
  if (type.mapping() == row_mapping::run_ends) {
    const auto ends = static_cast<std::size_t>(node.children[0].rows);
    result.run_ends.push_back(plan_.add_place(checked_mul(ends, run_end_width(type), "run ends")));
  }
  for (join_node& child : node.children) {
    result.children.push_back(lay_out(child));
  }
  return result;
}

void join_slab::add_validity(joined& made) {
  if (!made.buffers[0].present()) {
    return;
  }
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    if (copies_validity(span)) {
      plan_.add_bits(span, 0, made.buffers[0], nulls_of(span) < 0 ? made.counter : scatter_step::not_counted);
    } else {
      plan_.add_ones(span, made.buffers[0], made.ones);
    }
  });
}

void join_slab::add_unchanged(const joined& made, std::size_t index) {
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    plan_.add_unchanged(span, *made.node->type, index, made.buffers[index]);
  });
}

/// Adds indices: shifted if their dictionaries were joined, remapped if the dictionaries were united.
void join_slab::add_indices(const joined& made) {
  const std::int32_t width = made.node->type->byte_width();
  std::vector<std::int64_t>& all = plan_.plan().tables;
  std::map<const void*, std::size_t> tables; // remap tables, by their first entry
  for_each_span(*made.node, [&](const join_span& span, std::size_t piece) {
    const auto remap = made.node->dictionary->remap(piece);
    if (remap.empty() && made.children.empty()) {
      return plan_.add_unchanged(span, *made.node->type, 1, made.buffers[1]);
    }
    if (remap.empty()) {
      plan_.add_changed(join_kind::add, span, 1, width, made.buffers[1]).add = {
          made.children[0].node->spans[span.children_of].row_base};
      return;
    }
    const auto [known, fresh] = tables.try_emplace(remap.data(), all.size());
    if (fresh) {
      all.insert(all.end(), remap.begin(), remap.end());
    }
    plan_.add_changed(join_kind::remap, span, 1, width, made.buffers[1]).remap = {
        .table = known->second, .entries = static_cast<std::int64_t>(remap.size())};
  });
}

void join_slab::add_list_starts(const joined& made) {
  const std::int32_t width = made.node->type->buffer(1).width;
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    plan_.add_changed(join_kind::add, span, 1, width, made.buffers[1]).add = {
        made.children[0].node->spans[span.children_of].row_base};
  });
}

void join_slab::add_offsets(const joined& made) {
  const auto width = static_cast<std::int32_t>(made.node->type->offset_width());
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    plan_.add_offsets(span, width, made.buffers[1], span.row_base + span.rows == made.node->rows);
  });
}

/// The buffers behind views stay in place; only their numbers change.
void join_slab::add_views(const joined& made) {
  constexpr std::int32_t width = 16;
  std::int64_t before = 0;
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    plan_.add_changed(join_kind::views, span, 1, width, made.buffers[1]).views = {before};
    before += static_cast<std::int64_t>(span.of->buffers().size() - made.node->type->buffer_count());
  });
}

void join_slab::add_union_rows(const joined& made) {
  constexpr std::size_t type_ids = 128;
  const auto codes = made.node->type->type_codes();
  std::vector<std::int64_t>& tables = plan_.plan().tables;
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    const std::size_t bases = tables.size();
    tables.resize(bases + type_ids);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      tables[bases + static_cast<std::size_t>(codes[i])] =
          made.children[i].node->spans[span.children_of].row_base;
    }
    plan_.add_changed(join_kind::unions, span, 1, sizeof(std::int32_t), made.buffers[1]).unions = {
        .ids = span.at[0] + static_cast<std::uint64_t>(span.first), .bases = bases};
  });
}

void join_slab::add_run_ends(const joined& made) {
  const auto width = static_cast<std::int32_t>(run_end_width(*made.node->type));
  for_each_span(*made.node, [&](const join_span& span, std::size_t piece) {
    const piece_rows ends = runs_of(span, made.children[0].node->spans[piece].row_base);
    plan_.add_run_ends(span, ends, width, made.run_ends[0]);
  });
}

void join_slab::add_buffer(joined& made, std::size_t index) {
  switch (made.node->type->buffer(index).role) {
  case buffer_role::validity:
    return add_validity(made);
  case buffer_role::values:
    return made.node->dictionary ? add_indices(made) : add_unchanged(made, index);
  case buffer_role::views:
    return add_views(made);
  case buffer_role::offsets:
    return add_offsets(made);
  case buffer_role::starts:
    return add_list_starts(made);
  case buffer_role::union_rows:
    return add_union_rows(made);
  case buffer_role::bits:
  case buffer_role::sizes:
  case buffer_role::type_ids:
  case buffer_role::bytes:
    return add_unchanged(made, index);
  }
}

/// Must be called while a token holds the buffers of the pieces.
void join_slab::add_steps(joined& made) {
  if (made.node->rows == 0) {
    return;
  }
  for (std::size_t piece = first_; piece < end_; ++piece) {
    join_span& span = made.node->spans[piece];
    for (std::size_t i = 0; i < made.buffers.size(); ++i) {
      span.at[i] = span.of->buffers()[i].address();
    }
  }
  for (std::size_t i = 0; i < made.buffers.size(); ++i) {
    add_buffer(made, i);
  }
  if (made.node->type->mapping() == row_mapping::run_ends) {
    add_run_ends(made);
  }
  for (joined& child : made.children) {
    add_steps(child);
  }
}

/// Uploads each united dictionary that no piece has. Nested dictionaries come first.
void join_slab::upload_dictionaries(std::vector<joined>& of) {
  for (joined& joined_column : of) {
    upload_dictionaries(joined_column.children);
    dictionary_union* const dictionary = joined_column.node->dictionary.get();
    if (dictionary == nullptr || !joined_column.children.empty() || joined_column.node->rows == 0) {
      continue;
    }
    if (auto there = dictionary->find_existing()) {
      joined_column.dictionary = std::make_shared<const column>(std::move(*there));
      continue;
    }
    host_batch values;
    values.arrays.push_back(dictionary->values());
    values.rows = values.arrays.front().length;
    dictionary_cache none;
    batch batch = upload(ctx_, values, none, {.tag = "combine", .readable = {}, .file = {}});
    joined_column.dictionary = std::make_shared<const column>(std::move(batch.columns.front()));
  }
}

buffer join_slab::in_slab(const slab_place& at) const {
  return at.present()
             ? slab_.slice(static_cast<std::size_t>(plan_.byte_of(at)), static_cast<std::size_t>(at.bytes))
             : buffer();
}

/// Appends the buffers of a piece that the steps will read, if `reads` needs them.
void join_slab::append_sources(const joined& of, std::size_t piece, const storage_reads& reads,
                               std::vector<const buffer*>& sources) const {
  if (of.node->rows == 0) {
    return;
  }
  if (const join_span& span = of.node->spans[piece]; span.taken) {
    const bool validity = of.node->type->has_validity();
    const auto buffers = span.of->buffers();
    for (std::size_t i = 0; i < of.buffers.size(); ++i) {
      const bool read = of.buffers[i].present() && (i != 0 || !validity || copies_validity(span));
      if (read && reads.needs(buffers[i])) {
        sources.push_back(&buffers[i]);
      }
    }
    if (!of.run_ends.empty()) {
      sources.push_back(&span.of->children()[0].buffers()[1]);
    }
  }
  for (const joined& child : of.children) {
    append_sources(child, piece, reads, sources);
  }
}

/// @param first  the first of `plain_` whose source is used
std::vector<use> join_slab::uses(const std::vector<joined>& of, std::size_t first) const {
  // A token takes storages in the order in which they were made. Those of a piece were mostly made after those
  // of the piece before it, so they are sorted piece by piece. The slab comes last.
  const auto by_age = [](const buffer* source) { return source->owner()->generation(); };
  storage_reads reads(ctx_->work_stream());
  reads.uses().reserve(of.size() * (end_ - first_) + plain_.size() - first + 1);
  std::vector<const buffer*> sources;
  for (std::size_t piece = first_; piece < end_; ++piece) {
    sources.clear();
    for (const joined& column : of) {
      append_sources(column, piece, reads, sources);
    }
    if (!std::ranges::is_sorted(sources, {}, by_age)) {
      std::ranges::sort(sources, {}, by_age);
    }
    for (const buffer* const source : sources) {
      reads.add(*source);
    }
  }
  append_uses(first, plain_.size(), reads.uses());
  reads.uses().push_back(writes(slab_));
  return std::move(reads.uses());
}

/// Appends the sources of bytes [first, end) of `plain_`.
void join_slab::append_uses(std::size_t first, std::size_t end, std::vector<use>& uses) const {
  uses.reserve(uses.size() + (end - first) + 1);
  for (const plain_bytes& bytes : plain_.subspan(first, end - first)) {
    // The token merges storages that are named again.
    if (bytes.window.bytes != 0 && (uses.empty() || bytes.from->owner() != uses.back().used.owner())) {
      uses.push_back(reads(buffer(bytes.from->owner())));
    }
  }
}

/// Only copies and bits work at any address.
void join_slab::require_aligned(const join_step& step) const {
  const bool anywhere = step.kind == join_kind::copy || step.kind == join_kind::bits;
  if (!anywhere) {
    require_alignment("joining columns", step.source, join_value_bytes(step));
  }
}

std::vector<join_step> join_slab::finished_steps(std::byte* slab, const std::int64_t* tables) const {
  const scatter_plan& plan = plan_.plan();
  auto* const counters = reinterpret_cast<std::int64_t*>(slab + plan.counters_at);
  std::vector<join_step> steps;
  steps.reserve(plan.fills.size() + plan.steps.size() + plain_.size());
  const bool on_host = ctx_->on_host();
  for (const scatter_step& fill : plan.fills) {
    steps.push_back(kernel_step(fill, nullptr, slab, counters));
  }
  for (const scatter_step& step : plan.steps) {
    steps.push_back(
        kernel_step(step, reinterpret_cast<const std::byte*>(step.source), slab, counters, tables));
    if (!on_host) {
      require_aligned(steps.back());
    }
  }
  return steps;
}

/// Appends the copies of bytes [first, end) of `plain_`.
void join_slab::append_copies(std::size_t first, std::size_t end, std::byte* slab,
                              std::vector<join_step>& steps) const {
  for (std::size_t i = first; i < end; ++i) {
    const auto& [from, window] = plain_[i];
    if (window.bytes != 0) {
      join_step& step = steps.emplace_back();
      step.source = reinterpret_cast<const std::byte*>(from->address()) + window.offset;
      step.target = slab + plan_.byte_of(plain_places_[i]);
      step.count = static_cast<std::int64_t>(window.bytes);
      step.copy.zeros = static_cast<std::int64_t>(round_up(window.bytes, slab_plan::padding) - window.bytes);
    }
  }
}

/// Whether threads of the host share the steps.
bool join_slab::is_shared() const {
  constexpr std::size_t least_shared = std::size_t{4} << 20;
  return ctx_->on_host() && slab_.size() >= least_shared;
}

void join_slab::launch_on_threads(std::span<const join_step> steps) const {
  const std::size_t part_steps = std::clamp<std::size_t>(steps.size() / 32, 1, 16);
  thread_pool threads;
  threads.run((steps.size() + part_steps - 1) / part_steps, [&](std::size_t, std::size_t part) {
    const std::size_t first = part * part_steps;
    const auto some = steps.subspan(first, std::min(part_steps, steps.size() - first));
    ctx_->kernels().join(ctx_->work_stream().native_handle(), some, some.data());
  });
}

/// Uploads the steps and queues their kernel.
void join_slab::launch(std::vector<join_step> steps) const {
  if (is_shared()) {
    return launch_on_threads(steps);
  }
  const stream_ref work = ctx_->work_stream();
  number_tiles(steps);
  const device_copy<join_step> uploaded(ctx_, steps);
  use_token described(work, {reads(uploaded.memory())});
  ctx_->kernels().join(work.native_handle(), steps, steps.empty() ? nullptr : uploaded.data(described));
  described.finish();
}

void join_slab::copy(std::size_t first, std::size_t end) const {
  std::vector<use> uses;
  append_uses(first, end, uses);
  uses.push_back(writes(slab_));
  use_token token(ctx_->work_stream(), uses);
  std::vector<join_step> steps;
  steps.reserve(end - first);
  append_copies(first, end, token.span<std::byte>(slab_).data(), steps);
  launch(std::move(steps));
  token.finish();
}

/// Copies large parts of `plain_`, so that the device works while the host goes on. Returns the first of
/// `plain_` that is left for the launch of the other steps.
std::size_t join_slab::copy_large_parts() const {
  std::size_t first = 0;
  std::size_t bytes = 0;
  std::size_t part = first_part;
  for (std::size_t i = 0; i < plain_.size(); ++i) {
    if (bytes >= part) {
      copy(first, i);
      first = i;
      bytes = 0;
      part *= 2;
    }
    bytes += plain_[i].window.bytes;
  }
  return first;
}

void join_slab::run(std::vector<joined>& of) {
  const stream_ref work = ctx_->work_stream();
  const scatter_plan& plan = plan_.plan();
  slab_ = buffer::allocate(ctx_, plan.slab_bytes, work, tag_);
  const bool all_zeroed = plan.zeroed_bytes == plan.slab_bytes; // before anything is copied
  const std::size_t left = all_zeroed ? 0 : copy_large_parts();
  use_token token(work, uses(of, left));
  auto* const slab = token.span<std::byte>(slab_).data();
  ctx_->copies().fill(slab, 0, plan.zeroed_bytes, work);
  // One thread of the host takes steps while they are in its cache.
  const std::size_t most_steps =
      ctx_->on_host() && !is_shared() ? 256 : std::numeric_limits<std::size_t>::max();
  for (joined& column : of) {
    add_steps(column);
    if (plan.steps.size() > most_steps) {
      launch(finished_steps(slab, plan.tables.data()));
      plan_.clear_steps();
    }
  }
  plan_.clear_padding();
  const device_copy<std::int64_t> tables(ctx_, plan.tables);
  use_token named(work, {reads(tables.memory())});
  std::vector<join_step> steps = finished_steps(slab, plan.tables.empty() ? nullptr : tables.data(named));
  append_copies(left, plain_.size(), slab, steps);
  launch(std::move(steps));
  counted_.resize(plan.counters);
  if (plan.counters != 0) {
    ctx_->copies().read_scalars(counted_, reinterpret_cast<const std::int64_t*>(slab + plan.counters_at),
                                work);
  }
  named.finish();
  token.finish();
}

column join_slab::make(const joined& from) const {
  const data_type& type = *from.node->type;
  if (from.node->rows == 0) {
    return column::empty(ctx_, type);
  }
  column::parts parts;
  parts.type = type;
  parts.length = from.node->rows;
  parts.null_count = from.nulls + (from.counter == scatter_step::not_counted ? 0 : counted_[from.counter]);
  for (const slab_place& buffer : from.buffers) {
    parts.buffers.push_back(in_slab(buffer));
  }
  if (type.has_validity() && parts.null_count == 0) {
    parts.buffers[0] = {}; // the validity was only needed to count the nulls, and there are none
  }
  if (type.has_variadic_buffers()) {
    for_each_span(*from.node, [&](const join_span& span, std::size_t) {
      const auto bytes = span.of->buffers().subspan(type.buffer_count());
      parts.buffers.append(bytes.begin(), bytes.end());
    });
  }
  for (const slab_place& ends : from.run_ends) {
    parts.children.push_back(column::make(ctx_, {.type = type.children()[0].type,
                                                 .length = from.children[0].node->rows,
                                                 .offset = 0,
                                                 .null_count = 0,
                                                 .buffers = {{}, in_slab(ends)}}));
  }
  parts.dictionary = from.dictionary;
  for (const joined& child : from.children) {
    if (from.node->dictionary) {
      parts.dictionary = std::make_shared<const column>(make(child));
    } else {
      parts.children.push_back(make(child));
    }
  }
  return column::make(ctx_, std::move(parts));
}

std::vector<column> join_slab::columns() {
  std::vector<joined> layouts;
  for (join_node& node : nodes_) {
    layouts.push_back(lay_out(node));
  }
  plain_places_.reserve(plain_.size());
  for (const plain_bytes& bytes : plain_) {
    // The copy of the bytes clears the padding.
    plain_places_.push_back(plan_.add_place(bytes.window.bytes, false, false));
  }
  plan_.end_layout();
  upload_dictionaries(layouts);
  run(layouts);
  std::vector<column> columns;
  columns.reserve(layouts.size());
  for (const joined& layout : layouts) {
    columns.push_back(make(layout));
  }
  return columns;
}

} // namespace saeta
