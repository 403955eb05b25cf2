#include "saeta/compute/join_node.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>

namespace saeta {
namespace {

/// Reads numbers that a level of nodes needs from the device, and stores them at their targets.
class offset_reader {
public:
  /// @param index  index of the value in `values`, in units of `width` bytes
  void ask(const buffer& values, std::size_t width, std::int64_t index, std::int64_t& target) {
    questions_.push_back({&values,
                          index * static_cast<std::int64_t>(width),
                          {.at = nullptr, .width = static_cast<std::int32_t>(width)},
                          &target});
  }
  /// Asks for the position of the first of `count` values from `index` on that is greater than `greater`.
  void search(const buffer& values, std::size_t width, std::int64_t index, std::int64_t count,
              std::int64_t greater, std::int64_t& target) {
    ask(values, width, index, target);
    value_request& added = questions_.back().request;
    added.search = true;
    added.count = count;
    added.greater = greater;
  }

  /// Reads all numbers by one kernel and one copy. The targets must not have moved.
  void fetch(const std::shared_ptr<context>& ctx) {
    if (questions_.empty()) {
      return;
    }
    const stream_ref work = ctx->work_stream();
    storage_reads memory(work);
    for (const question& question : questions_) {
      memory.add(*question.values);
    }
    const use_token sources(work, memory.uses());
    std::vector<value_request> requests;
    requests.reserve(questions_.size());
    for (const question& question : questions_) {
      requests.push_back(question.request);
      requests.back().at = reinterpret_cast<const std::byte*>(question.values->address()) + question.byte;
    }
    const std::vector<std::int64_t> values = read_values(ctx, requests);
    for (std::size_t i = 0; i < values.size(); ++i) {
      *questions_[i].target = values[i];
    }
  }

private:
  struct question {
    const buffer* values;
    std::int64_t byte;
    value_request request;
    std::int64_t* target;
  };
  std::vector<question> questions_;
};

/// Whether a span of the type has to read what its rows point to.
bool reads_offsets(const data_type& type) {
  return type.offset_width() != 0 || type.mapping() == row_mapping::run_ends;
}

/// Asks for what a span points to: `pointed_first` gets the first position and `pointed` the end (for runs,
/// the last).
void ask_offsets(const data_type& type, join_span& span, offset_reader& reader) {
  if (span.rows == 0) {
    return;
  }
  if (const std::size_t width = type.offset_width(); width != 0) {
    reader.ask(span.of->offsets(), width, span.first, span.pointed_first);
    reader.ask(span.of->offsets(), width, span.first + span.rows, span.pointed);
  } else if (type.mapping() == row_mapping::run_ends) {
    const column& ends = span.of->children()[0];
    const auto search = [&](std::int64_t row, std::int64_t& target) {
      reader.search(ends.buffers()[1], run_end_width(type), ends.offset(), ends.length(), row, target);
    };
    search(span.first, span.pointed_first);
    search(span.first + span.rows - 1, span.pointed);
  }
}

/// Checks the positions and makes `pointed` a count.
/// @throws error format for decreasing offsets and for run ends that do not reach the last row, which nothing
/// checked before
void settle_offsets(const data_type& type, join_span& span) {
  if (span.rows == 0) {
    return;
  }
  std::int64_t limit = 0;
  if (type.mapping() == row_mapping::run_ends) {
    limit = span.of->children()[0].length();
    span.pointed += 1;
  } else if (type.offset_width() != 0) {
    limit = type.children().empty() ? static_cast<std::int64_t>(span.of->bytes().size())
                                    : span.of->children()[0].length();
  } else {
    return;
  }
  if (span.pointed_first < 0 || span.pointed < span.pointed_first || span.pointed > limit) {
    throw error(errc::format, concat("joining columns of ", type.name(), ": rows ", span.first, " to ",
                                     span.first + span.rows, " refer to values [", span.pointed_first, ", ",
                                     span.pointed, ") of ", limit));
  }
  span.pointed -= span.pointed_first;
}

/// The rows of child `index` that a span contributes.
join_span child_span(const data_type& type, const join_span& span, std::size_t index) {
  const column& child = span.of->children()[index];
  const child_rows used =
      select_child_rows(type, span.first, span.rows, {span.pointed_first, span.pointed}, child.length());
  return span_of(child, child.offset() + used.first, used.count);
}

void add_children(join_node& node) {
  const bool runs = node.type->mapping() == row_mapping::run_ends;
  const auto fields = node.type->children();
  for (std::size_t i = runs ? 1 : 0; i < fields.size(); ++i) {
    join_node& child = node.children.emplace_back();
    child.type = &fields[i].type;
    child.spans.reserve(node.spans.size());
    for (const join_span& span : node.spans) {
      child.spans.push_back(child_span(*node.type, span, i));
    }
  }
}

/// Adds the dictionaries of a node. Those that cannot be compared become a child.
void add_dictionary(join_node& node) {
  node.dictionary = std::make_unique<dictionary_union>(*node.type);
  for (const join_span& span : node.spans) {
    node.dictionary->add(*span.of->dictionary());
  }
  if (node.dictionary->is_one() || node.dictionary->compares()) {
    return;
  }
  join_node& values = node.children.emplace_back();
  values.type = node.type->value_type();
  for (const join_span& span : node.spans) {
    const column& from = *span.of->dictionary();
    values.spans.push_back(span_of(from, from.offset(), span.rows == 0 ? 0 : from.length()));
  }
}

/// Handles all nodes of a level, then the next level.
void expand(const std::shared_ptr<context>& ctx, std::vector<join_node*> level) {
  while (!level.empty()) {
    offset_reader reader;
    for (join_node* const node : level) {
      node->limit = limit_of(*node->type);
      if (reads_offsets(*node->type)) {
        for (join_span& span : node->spans) {
          ask_offsets(*node->type, span, reader);
        }
      }
    }
    reader.fetch(ctx);
    std::vector<join_node*> next;
    for (join_node* const node : level) {
      if (reads_offsets(*node->type)) {
        for (join_span& span : node->spans) {
          settle_offsets(*node->type, span);
        }
      }
      if (node->type->id() == type_id::dictionary) {
        add_dictionary(*node);
      } else {
        add_children(*node);
      }
      for (join_node& child : node->children) {
        next.push_back(&child);
      }
    }
    level = std::move(next);
  }
}

} // namespace

std::size_t run_end_width(const data_type& type) noexcept {
  return static_cast<std::size_t>(type.children()[0].type.byte_width());
}

join_span span_of(const column& of, std::int64_t first, std::int64_t rows) {
  join_span span;
  span.of = &of;
  span.first = first;
  span.rows = rows;
  return span;
}

bool join_node::shares_children(const join_span& span) const noexcept {
  if (last == nullptr) {
    return false;
  }
  if (type->mapping() == row_mapping::scattered) {
    return last->of->children().data() == span.of->children().data();
  }
  return type->id() == type_id::dictionary && last->of->dictionary() == span.of->dictionary();
}

void join_node::begin_group() noexcept {
  rows = 0;
  pointed = 0;
  last = nullptr;
  if (dictionary) {
    dictionary->begin_group();
  }
  for (join_node& child : children) {
    child.begin_group();
  }
}

bool join_node::fits(std::size_t piece) const {
  const join_span& span = spans[piece];
  const bool has_limit = limit.what != counted_rows::nothing || dictionary || !children.empty();
  if (span.rows == 0 || !has_limit) {
    return true;
  }
  if ((limit.what == counted_rows::pointed && span.pointed > limit.most - pointed) ||
      (limit.what == counted_rows::own && span.rows > limit.most - rows)) {
    return false;
  }
  if (shares_children(span)) {
    return true;
  }
  if (dictionary && !dictionary->fits(piece)) {
    return false;
  }
  const bool counts_children = limit.what == counted_rows::of_children;
  return std::ranges::all_of(children, [&](const join_node& child) {
    const std::int64_t added = child.spans[piece].rows;
    const bool counted = !counts_children || added <= limit.most - child.rows;
    const bool indexed = !dictionary || last == nullptr || dictionary->can_index(child.rows + added);
    return counted && indexed && child.fits(piece);
  });
}

void join_node::finish_piece(std::size_t piece) noexcept {
  spans[piece].taken = false;
  for (join_node& child : children) {
    child.finish_piece(piece);
  }
}

void join_node::take(std::size_t piece) {
  join_span& span = spans[piece];
  span.row_base = rows;
  span.pointed_base = pointed;
  if (span.rows == 0) {
    return finish_piece(piece);
  }
  span.taken = true;
  const bool shared = shares_children(span);
  span.children_of = shared ? last->children_of : piece;
  rows += span.rows;
  pointed += span.pointed;
  last = &span;
  if (dictionary) {
    dictionary->take(piece);
  }
  for (join_node& child : children) {
    if (shared) {
      child.finish_piece(piece);
    } else {
      child.take(piece);
    }
  }
}

std::vector<join_node> join_nodes(const std::shared_ptr<context>& ctx,
                                  std::span<const column_pieces> columns) {
  std::vector<join_node> nodes;
  nodes.reserve(columns.size());
  for (const column_pieces& pieces : columns) {
    join_node& node = nodes.emplace_back();
    node.type = &pieces.front()->type();
    node.spans.reserve(pieces.size());
    for (const column* const piece : pieces) {
      node.spans.push_back(span_of(*piece, piece->offset(), piece->length()));
    }
  }
  std::vector<join_node*> top;
  top.reserve(nodes.size());
  for (join_node& node : nodes) {
    top.push_back(&node);
  }
  expand(ctx, std::move(top));
  return nodes;
}

} // namespace saeta
