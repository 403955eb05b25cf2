#include "saeta/transfer/detail/join_slab.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/transfer/device_copy.hpp"
#include "saeta/transfer/host_window.hpp"
#include "saeta/transfer/upload.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace saeta {
namespace {

constexpr std::size_t padding = 64; // as the Arrow format recommends
constexpr const char* label = "combine";

std::size_t as_size(std::int64_t number) { return static_cast<std::size_t>(number); }

/// What is known about the nulls of a span; column::unknown_nulls where they have to be counted.
std::int64_t nulls_of(const join_span& span) {
  return nulls_of_part(span.of->known_null_count(), span.of->length(), span.rows);
}

} // namespace

join_slab::join_slab(std::shared_ptr<context> home, std::vector<join_node>& nodes, std::size_t first,
                     std::size_t end)
    : home_(std::move(home)), nodes_(nodes), first_(first), end_(end) {}

join_slab::place join_slab::add_place(std::size_t bytes, bool bits) {
  if (bytes == 0) {
    return {};
  }
  std::size_t& used = bits ? bits_bytes_ : other_bytes_;
  const place made{used, bytes, bits};
  used = checked_add(used, round_up(bytes, padding), "bytes of joined columns");
  if (!bits && bytes % padding != 0) {
    add_draft(join_kind::zero, made, bytes, static_cast<std::int64_t>(padding - bytes % padding));
  }
  return made;
}

/// A validity is needed where a span has nulls, or may have some.
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
  made.buffers[0] = add_place(bitmap_bytes(made.node->rows), true);
  if (unknown) {
    made.counter = counters_++;
  }
}

join_slab::joined join_slab::lay_out(join_node& node) {
  joined made;
  made.node = &node;
  const data_type& type = *node.type;
  const std::int64_t rows = node.rows;
  made.buffers.resize(type.buffer_count());
  for (std::size_t i = 0; i < made.buffers.size() && rows != 0; ++i) {
    switch (type.buffer(i).role) {
    case buffer_role::validity:
      lay_out_validity(made);
      break;
    case buffer_role::bits:
      made.buffers[i] = add_place(bitmap_bytes(rows), true);
      break;
    case buffer_role::bytes:
      made.buffers[i] = add_place(as_size(node.pointed));
      break;
    default:
      made.buffers[i] = add_place(required_bytes(type, i, rows));
    }
  }
  if (type.layout() == layout_kind::run_ends) {
    made.run_ends.push_back(
        add_place(checked_mul(as_size(node.children[0].rows), run_end_width(type), "run ends")));
  }
  for (join_node& child : node.children) {
    made.children.push_back(lay_out(child));
  }
  return made;
}

join_slab::draft& join_slab::add_draft(join_kind kind, const place& target, std::size_t target_byte,
                                       std::int64_t count) {
  draft& made = drafts_.emplace_back();
  made.step.kind = kind;
  made.step.count = count;
  made.target = target;
  made.target_byte = target_byte;
  return made;
}

void join_slab::add_validity(const joined& made) {
  if (made.buffers.empty() || made.buffers[0].at == absent || !made.node->type->has_validity()) {
    return;
  }
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    const std::int64_t nulls = nulls_of(span);
    const bool copied = span.of->validity().present() && nulls != 0;
    draft& step = add_draft(copied ? join_kind::bits : join_kind::ones, made.buffers[0], 0, span.rows);
    step.step.bits.target_first = span.row_base;
    if (copied) {
      step.source = &span.of->validity();
      step.step.bits.source_first = span.first;
      step.counter = nulls < 0 ? made.counter : absent;
    }
  });
}

/// Bits and values of as many bytes a row.
void join_slab::add_buffer(const joined& made, std::size_t index) {
  const data_type& type = *made.node->type;
  const buffer_spec spec = type.buffer(index);
  const auto width = static_cast<std::size_t>(spec.width);
  std::map<const void*, std::size_t> tables; // of dictionaries, by their first entry
  for_each_span(*made.node, [&](const join_span& span, std::size_t piece) {
    const buffer& source = span.of->buffers()[index];
    if (spec.role == buffer_role::bits) {
      draft& step = add_draft(join_kind::bits, made.buffers[index], 0, span.rows);
      step.source = &source;
      step.step.bits = {.source_first = span.first, .target_first = span.row_base, .nulls = nullptr};
      return;
    }
    if (width == 0) {
      return;
    }
    const std::size_t to = as_size(span.row_base) * width;
    draft& step = add_draft(join_kind::copy, made.buffers[index], to, span.rows);
    step.source = &source;
    step.source_byte = as_size(span.first) * width;
    step.step.width = spec.width;
    const dictionary_union* const dictionary = made.node->dictionary.get();
    const auto remap = dictionary != nullptr ? dictionary->remap(piece) : std::span<const std::int64_t>();
    if (!remap.empty()) {
      const auto [known, fresh] = tables.try_emplace(remap.data(), tables_.size());
      if (fresh) {
        tables_.insert(tables_.end(), remap.begin(), remap.end());
      }
      step.step.kind = join_kind::remap;
      step.step.remap = {.table = nullptr, .entries = static_cast<std::int64_t>(remap.size())};
      step.table = known->second;
    } else if (dictionary != nullptr && !made.children.empty()) {
      step.step.kind = join_kind::add;
      step.step.add = {made.children[0].node->spans[span.children_of].row_base};
    } else if (type.layout() == layout_kind::list_view && index == 1) {
      step.step.kind = join_kind::add;
      step.step.add = {made.children[0].node->spans[span.children_of].row_base};
    } else {
      step.step.count = span.rows * spec.width;
    }
  });
}

/// Rows, and one offset more behind the last.
void join_slab::add_offsets(const joined& made) {
  const auto width = made.node->type->offset_width();
  const bool bytes = made.node->type->layout() == layout_kind::bytes;
  std::size_t last = absent;
  for_each_span(*made.node, [&](const join_span& span, std::size_t piece) {
    draft& step = add_draft(join_kind::add, made.buffers[1], as_size(span.row_base) * width, span.rows);
    last = drafts_.size() - 1;
    step.source = &span.of->buffers()[1];
    step.source_byte = as_size(span.first) * width;
    step.step.width = static_cast<std::int32_t>(width);
    const std::int64_t base = bytes ? span.pointed_base : made.children[0].node->spans[piece].row_base;
    step.step.add = {base - span.pointed_first};
    if (bytes && span.pointed != 0) {
      draft& content = add_draft(join_kind::copy, made.buffers[2], as_size(span.pointed_base), span.pointed);
      content.source = &span.of->buffers()[2];
      content.source_byte = as_size(span.pointed_first);
    }
  });
  if (last != absent) {
    drafts_[last].step.count += 1;
  }
}

void join_slab::add_union_offsets(const joined& made) {
  constexpr std::size_t type_ids = 128;
  constexpr std::size_t width = sizeof(std::int32_t);
  const auto codes = made.node->type->type_codes();
  for_each_span(*made.node, [&](const join_span& span, std::size_t) {
    draft& step = add_draft(join_kind::unions, made.buffers[1], as_size(span.row_base) * width, span.rows);
    step.source = &span.of->buffers()[1];
    step.source_byte = as_size(span.first) * width;
    step.ids = &span.of->buffers()[0];
    step.ids_byte = as_size(span.first);
    step.table = tables_.size();
    tables_.resize(tables_.size() + type_ids);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      tables_[step.table + as_size(codes[i])] = made.children[i].node->spans[span.children_of].row_base;
    }
  });
}

void join_slab::add_run_ends(const joined& made) {
  const std::size_t width = run_end_width(*made.node->type);
  for_each_span(*made.node, [&](const join_span& span, std::size_t piece) {
    const column& ends = span.of->children()[0];
    const std::int64_t base = made.children[0].node->spans[piece].row_base;
    draft& step = add_draft(join_kind::run_ends, made.run_ends[0], as_size(base) * width, span.pointed);
    step.source = &ends.buffers()[1];
    step.source_byte = as_size(ends.offset() + span.pointed_first) * width;
    step.step.width = static_cast<std::int32_t>(width);
    step.step.run_ends = {.first_row = span.first, .rows = span.rows, .base = span.row_base};
  });
}

void join_slab::add_steps(const joined& made) {
  const data_type& type = *made.node->type;
  if (made.node->rows == 0) {
    return;
  }
  add_validity(made);
  switch (type.layout()) {
  case layout_kind::bits:
  case layout_kind::fixed:
    add_buffer(made, 1);
    break;
  case layout_kind::list_view:
    add_buffer(made, 1);
    add_buffer(made, 2);
    break;
  case layout_kind::bytes:
  case layout_kind::list:
    add_offsets(made);
    break;
  case layout_kind::views: {
    std::int64_t base = 0;
    for_each_span(*made.node, [&](const join_span& span, std::size_t) {
      constexpr std::size_t width = 16;
      draft& step = add_draft(join_kind::views, made.buffers[1], as_size(span.row_base) * width, span.rows);
      step.source = &span.of->buffers()[1];
      step.source_byte = as_size(span.first) * width;
      step.step.views = {base};
      base += static_cast<std::int64_t>(span.of->buffers().size() - type.buffer_count());
    });
    break;
  }
  case layout_kind::dense_union:
    add_union_offsets(made);
    [[fallthrough]];
  case layout_kind::sparse_union:
    add_buffer(made, 0);
    break;
  case layout_kind::run_ends:
    add_run_ends(made);
    break;
  default:
    break;
  }
  for (const joined& child : made.children) {
    add_steps(child);
  }
}

/// Dictionaries that no piece has: all of a level of nesting in one transfer, because those inside of others come first.
void join_slab::upload_dictionaries(std::vector<joined>& of) {
  for (joined& each : of) {
    upload_dictionaries(each.children);
    dictionary_union* const dictionary = each.node->dictionary.get();
    if (dictionary == nullptr || !each.children.empty() || each.node->rows == 0) {
      continue;
    }
    if (auto there = dictionary->existing()) {
      each.dictionary = std::make_shared<const column>(std::move(*there));
      continue;
    }
    host_batch values;
    values.arrays.push_back(dictionary->values());
    values.rows = values.arrays.front().length;
    dictionary_cache none;
    batch made = upload(home_, values, none, {.tag = label, .readable = {}, .file = {}});
    each.dictionary = std::make_shared<const column>(std::move(made.columns.front()));
  }
}

buffer join_slab::in_slab(const place& at) const {
  return at.at == absent ? buffer() : slab_.slice((at.bits ? 0 : bits_bytes_) + at.at, at.bytes);
}

std::vector<use> join_slab::uses(const buffer& tables) const {
  std::vector<use> made{writes(slab_), reads(tables)};
  std::unordered_set<const storage*> known;
  for (const draft& each : drafts_) {
    for (const buffer* const source : {each.source, each.ids}) {
      if (source != nullptr && source->present() && known.insert(source->owner().get()).second) {
        made.push_back(reads(buffer(source->owner())));
      }
    }
  }
  return made;
}

/// Addresses are asked for while a token holds the buffers.
join_step join_slab::finished(const draft& from, const use_token& token, const std::int64_t* tables) const {
  join_step made = from.step;
  auto* const slab = token.mutable_data<std::byte>(slab_);
  made.target = slab + (from.target.bits ? 0 : bits_bytes_) + from.target.at + from.target_byte;
  if (from.source != nullptr) {
    made.source = reinterpret_cast<const std::byte*>(from.source->address()) + from.source_byte;
  }
  if (made.kind == join_kind::remap) {
    made.remap.table = tables + from.table;
  } else if (made.kind == join_kind::unions) {
    made.unions = {.bases = tables + from.table,
                   .ids = reinterpret_cast<const std::int8_t*>(from.ids->address()) + from.ids_byte};
  } else if (from.counter != absent) {
    made.bits.nulls = reinterpret_cast<std::int64_t*>(slab + counter_place_.at) + from.counter;
  }
  require_aligned(made);
  return made;
}

/// Only copies and bits work at any address.
void join_slab::require_aligned(const join_step& step) const {
  const bool anywhere = step.kind == join_kind::copy || step.kind == join_kind::zero ||
                        step.kind == join_kind::bits || step.kind == join_kind::ones;
  const auto alignment = static_cast<std::uintptr_t>(std::min(join_value_bytes(step), std::int64_t{8}));
  if (!home_->on_host() && !anywhere && reinterpret_cast<std::uintptr_t>(step.source) % alignment != 0) {
    throw error(errc::invalid_argument, concat("joining columns: values of ", alignment, " bytes at ",
                                               step.source, " are not aligned"));
  }
}

void join_slab::run() {
  const stream_ref work = home_->work_stream();
  slab_ =
      buffer::allocate(home_, checked_add(bits_bytes_, other_bytes_, "bytes of joined columns"), work, label);
  const device_copy<std::int64_t> tables(home_, tables_);
  use_token token(work, uses(tables.memory()));
  home_->copies().fill(token.mutable_data<std::byte>(slab_), 0, bits_bytes_, work);
  std::vector<join_step> steps;
  steps.reserve(drafts_.size());
  for (const draft& each : drafts_) {
    steps.push_back(finished(each, token, tables_.empty() ? nullptr : tables.data(token)));
  }
  number_tiles(steps);
  const device_copy<join_step> uploaded(home_, steps);
  use_token described(work, {reads(uploaded.memory())});
  home_->kernels().join(work.native_handle(), steps, steps.empty() ? nullptr : uploaded.data(described));
  counted_.resize(counters_);
  if (counters_ != 0) {
    home_->copies().read_scalars(
        counted_, reinterpret_cast<const std::int64_t*>(token.data<std::byte>(slab_) + counter_place_.at),
        work);
  }
  described.finish();
  token.finish();
}

column join_slab::make(const joined& from) const {
  const data_type& type = *from.node->type;
  if (from.node->rows == 0) {
    return column::empty(home_, type);
  }
  column::parts parts;
  parts.type = type;
  parts.length = from.node->rows;
  parts.null_count = from.nulls + (from.counter == absent ? 0 : counted_[from.counter]);
  for (const place& each : from.buffers) {
    parts.buffers.push_back(in_slab(each));
  }
  if (type.has_validity() && parts.null_count == 0) {
    parts.buffers[0] = {}; // it was needed to count the nulls, of which there are none
  }
  if (type.layout() == layout_kind::views) {
    for_each_span(*from.node, [&](const join_span& span, std::size_t) {
      const auto bytes = span.of->buffers().subspan(type.buffer_count());
      parts.buffers.append(bytes.begin(), bytes.end());
    });
  }
  for (const place& ends : from.run_ends) {
    parts.children.push_back(column::make(home_, {.type = type.children()[0].type,
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
  return column::make(home_, std::move(parts));
}

std::vector<column> join_slab::columns() {
  std::vector<joined> made;
  for (join_node& node : nodes_) {
    made.push_back(lay_out(node));
  }
  counter_place_ = add_place(counters_ * sizeof(std::int64_t), true);
  upload_dictionaries(made);
  for (const joined& each : made) {
    add_steps(each);
  }
  run();
  std::vector<column> columns;
  columns.reserve(made.size());
  for (const joined& each : made) {
    columns.push_back(make(each));
  }
  return columns;
}

} // namespace saeta
