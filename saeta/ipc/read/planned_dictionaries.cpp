#include "saeta/ipc/read/whole_plan.hpp"

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

bool same_message(const planned_message& a, const planned_message& b) { return a.order == b.order; }

} // namespace

planned_dictionaries::planned_dictionaries(const planned_source& from,
                                           std::span<const planned_message> batches)
    : from_(from) {
  const auto& all = from.dictionary_batches();
  for (const dictionary_messages& messages : all) {
    needed_.emplace_back(messages.messages.size(), false);
  }
  for (const planned_message& batch : batches) {
    mark(from.tree(), batch);
  }
  tables_.resize(all.size());
  deltas_.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    tables_[i].pieces = pieces_of(i, true);
    for (std::size_t k = 0; k < needed_[i].size(); ++k) {
      if (needed_[i][k]) {
        deltas_[i].push_back(all[i].deltas[k]);
      }
    }
  }
}

piece_table planned_dictionaries::pieces_of(std::size_t number, bool needed) const {
  piece_table pieces;
  pieces.tree = from_.dictionaries().trees[number].get();
  pieces.label = [&from = from_](const planned_message& message) { return from.name_at(message.begin); };
  for (std::size_t i = 0; i < needed_[number].size(); ++i) {
    if (needed_[number][i] == needed) {
      pieces.messages.push_back(from_.dictionary_batches()[number].messages[i]);
    }
  }
  return pieces;
}

bool planned_dictionaries::check_others(const task_runner& run_in_parallel) const {
  for (std::size_t number = 0; number < tables_.size(); ++number) {
    piece_table others = pieces_of(number, false);
    if (!others.messages.empty() && !read_pieces(others, from_.bytes(), false, run_in_parallel)) {
      return false;
    }
  }
  return true;
}

/// Marks the last message that gives all values anew, and those that add to it. A marked message that adds
/// values needs the messages before it, which are then marked too.
void planned_dictionaries::mark(const column_tree& tree, const planned_message& user) {
  for (const tree_node& node : tree.nodes) {
    if (node.dictionary == no_node) {
      continue;
    }
    const auto& [messages, deltas] = from_.dictionary_batches()[node.dictionary];
    for (std::size_t i = messages_before(messages, user); i-- > 0 && !needed_[node.dictionary][i];) {
      needed_[node.dictionary][i] = true;
      mark(*from_.dictionaries().trees[node.dictionary], messages[i]); // values with dictionaries themselves
      if (!deltas[i]) {
        break;
      }
    }
  }
}

bool planned_dictionaries::plan(bool assume, const task_runner& run_in_parallel) {
  for (std::size_t number = 0; number < tables_.size(); ++number) {
    if (!read_pieces(tables_[number].pieces, from_.bytes(), assume, run_in_parallel) || !group(number)) {
      return false;
    }
  }
  return std::ranges::none_of(tables_, [&](const planned_table& table) {
    return std::ranges::any_of(table.groups, [&](const planned_group& group) {
      for (std::size_t piece = group.pieces.first + 1; piece < group.pieces.end; ++piece) {
        if (replaced(table, piece)) {
          return true;
        }
      }
      return false;
    });
  });
}

/// Returns false if the dictionary is larger than its 32-bit offsets can count.
bool planned_dictionaries::group(std::size_t number) {
  planned_table& table = tables_[number];
  const std::vector<bool>& deltas = deltas_[number];
  const auto versions = static_cast<std::size_t>(std::ranges::count(deltas, false));
  table.groups.clear();
  for (piece_group& take_group :
       take_groups(table.pieces, [&](std::size_t piece) { return !deltas[piece]; })) {
    table.groups.push_back({std::move(take_group), {}});
  }
  return table.groups.size() == versions;
}

dictionary_state planned_dictionaries::state(const planned_table& table, std::size_t piece,
                                             std::size_t number) const {
  const planned_table& dictionary = tables_[number];
  const std::size_t before = messages_before(dictionary.pieces.messages, table.pieces.messages[piece]);
  if (before == 0) {
    return {};
  }
  const std::size_t last = before - 1;
  const auto position = std::ranges::partition_point(
      dictionary.groups, [&](const planned_group& group) { return group.pieces.end <= last; });
  const piece_span& span = dictionary.pieces.span(last, 0);
  return {static_cast<std::size_t>(position - dictionary.groups.begin()), span.row_base + span.rows};
}

bool planned_dictionaries::replaced(const planned_table& table, std::size_t piece) const {
  return std::ranges::any_of(table.pieces.tree->nodes, [&](const tree_node& node) {
    return node.dictionary != no_node &&
           state(table, piece - 1, node.dictionary).group != state(table, piece, node.dictionary).group;
  });
}

bool planned_dictionaries::same_messages(const planned_dictionaries& other) const {
  return std::ranges::equal(tables_, other.tables_, [](const planned_table& a, const planned_table& b) {
    return std::ranges::equal(a.pieces.messages, b.pieces.messages, same_message);
  });
}

} // namespace saeta::ipc::detail
