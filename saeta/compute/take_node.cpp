#include "saeta/column/schema.hpp"
#include "saeta/compute/take_level.hpp"

namespace saeta {
namespace {

constexpr std::size_t run_values = 1; ///< child of a run-end encoded column

/// The rows of a child that can be chosen. Children that are not aligned with the rows of the column are
/// whole.
taken_piece piece_of_child(const data_type& type, const taken_piece& piece, std::size_t index) {
  const column& child = piece.of->children()[index];
  taken_piece made{&child, child.offset(), child.length()};
  if (const auto known = rows_of_children(type, piece.first, piece.rows)) {
    made.first += piece.rows == 0 ? 0 : known->first;
    made.rows = piece.rows == 0 ? 0 : known->count;
  }
  return made;
}

std::vector<taken_node> children_of(const data_type& type, const short_list<taken_piece, 1>& pieces,
                                    bool owns_bytes) {
  std::vector<taken_node> made;
  const auto fields = type.children();
  for (std::size_t i = type.mapping() == row_mapping::run_ends ? run_values : 0; i < fields.size(); ++i) {
    taken_node& child = made.emplace_back();
    child.type = &fields[i].type;
    for (const taken_piece& piece : pieces) {
      child.pieces.push_back(piece_of_child(type, piece, i));
    }
    child.owns_bytes = owns_bytes;
    child.children = children_of(*child.type, child.pieces, owns_bytes);
  }
  return made;
}

column run_ends_of(const std::shared_ptr<context>& ctx, const taken_node& node) {
  return column::make(ctx, {.type = node.type->children()[0].type,
                            .length = node.children[0].length,
                            .offset = 0,
                            .null_count = 0,
                            .buffers = {{}, node.run_ends}});
}

} // namespace

taken_node node_of(std::span<const column> pieces, std::shared_ptr<const selected_rows> rows,
                   bool owns_bytes) {
  taken_node made;
  made.type = &pieces.front().type();
  for (const column& piece : pieces) {
    made.pieces.push_back({&piece, piece.offset(), piece.length()});
  }
  made.length = rows->count;
  made.rows = std::move(rows);
  made.owns_bytes = owns_bytes;
  made.children = children_of(*made.type, made.pieces, owns_bytes);
  return made;
}

column column_of(const std::shared_ptr<context>& ctx, const taken_node& node) {
  const data_type& type = *node.type;
  if (node.length == 0) {
    return column::empty(ctx, type);
  }
  column::parts parts;
  parts.type = type;
  parts.length = node.length;
  for (const buffer& each : node.buffers) {
    parts.buffers.push_back(each);
  }
  if (type.has_validity() && !parts.buffers[0].present()) {
    parts.null_count = 0;
  }
  if (type.has_variadic_buffers() && !node.owns_bytes) {
    for (const taken_piece& piece : node.pieces) {
      const auto bytes = piece.of->buffers().subspan(type.buffer_count());
      parts.buffers.append(bytes.begin(), bytes.end());
    }
  }
  if (type.mapping() == row_mapping::run_ends) {
    parts.children.push_back(run_ends_of(ctx, node));
  }
  for (const taken_node& child : node.children) {
    parts.children.push_back(column_of(ctx, child));
  }
  if (type.id() == type_id::dictionary) {
    parts.dictionary = std::make_shared<const column>(*node.pieces[0].of->dictionary());
  }
  return column::make(ctx, std::move(parts));
}

} // namespace saeta
