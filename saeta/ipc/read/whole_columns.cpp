#include "saeta/ipc/read/whole_columns.hpp"

namespace saeta::ipc::detail {

buffer whole_columns::in_slab(const slab_place& place) const {
  return place.present() ? made_.slab.slice(static_cast<std::size_t>(plan_.byte_of(place)),
                                            static_cast<std::size_t>(place.bytes))
                         : buffer();
}

std::shared_ptr<const column> whole_columns::dictionary(const dictionary_state& state, std::size_t number) {
  const auto [known, fresh] = known_.try_emplace({number, state.group, state.length});
  if (fresh) {
    const planned_table& table = dictionaries_.tables()[number];
    const auto whole = dictionaries_.values.empty()
                           ? std::make_shared<const column>(make(table, table.groups[state.group], 0))
                           : dictionaries_.values[number][state.group];
    known->second = whole->length() == state.length
                        ? whole
                        : std::make_shared<const column>(whole->slice(0, state.length));
  }
  return known->second;
}

/// All pieces of a group have the same dictionary. It grows from batch to batch of the source, in whose order
/// the pieces may not be.
dictionary_state whole_columns::longest(const planned_table& table, const piece_group& group,
                                        std::size_t number) const {
  dictionary_state found;
  for (std::size_t piece = group.first; piece < group.end; ++piece) {
    const dictionary_state each = dictionaries_.state(table, piece, number);
    found = piece == group.first || each.length > found.length ? each : found;
  }
  return found;
}

column whole_columns::make(const planned_table& table, const planned_group& group, std::size_t number) {
  const tree_node& node = table.pieces.tree->nodes[number];
  const planned_node& planned = group.nodes[number];
  const data_type& type = *node.type;
  column::parts parts;
  parts.type = type;
  parts.length = group.pieces.sums[number].rows;
  parts.null_count = type.id() == type_id::null                     ? parts.length
                     : planned.counter == scatter_step::not_counted ? 0
                                                                    : made_.counted[planned.counter];
  parts.buffers.resize(type.buffer_count());
  for (std::size_t i = type.has_validity() && parts.null_count == 0 ? 1 : 0; i < type.buffer_count(); ++i) {
    parts.buffers[i] = in_slab(planned.buffers[i]);
  }
  for (const slab_place& each : planned.variadic) {
    parts.buffers.push_back(in_slab(each));
  }
  if (node.dictionary != no_node) { // also without rows, so that batches of a column share a dictionary
    const dictionary_state state = longest(table, group.pieces, node.dictionary);
    parts.dictionary = state.has_group()
                           ? dictionary(state, node.dictionary)
                           : std::make_shared<const column>(column::empty(ctx_, *type.value_type()));
  }
  for (std::size_t child = number + 1; child != node.end; child = table.pieces.tree->nodes[child].end) {
    parts.children.push_back(make(table, group, child));
  }
  return column::make(ctx_, std::move(parts));
}

} // namespace saeta::ipc::detail
