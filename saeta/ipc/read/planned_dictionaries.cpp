#include "saeta/ipc/read/planned_dictionaries.hpp"

#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

/// The first message that batches from `order` on need: the last one before it that gives all values anew.
std::size_t first_needed(const dictionary_messages& all, std::size_t order) {
  std::size_t needed = 0;
  for (std::size_t i = 0; i < all.messages.size() && all.messages[i].order < order; ++i) {
    needed = all.deltas[i] ? needed : i;
  }
  return needed;
}

bool same_message(const planned_message& a, const planned_message& b) { return a.order == b.order; }

} // namespace

planned_dictionaries::planned_dictionaries(const planned_source& from, std::size_t first, std::size_t last)
    : from_(from) {
  const std::size_t count = from.dictionaries().trees.size();
  tables_.resize(count);
  deltas_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    tables_[i].pieces.tree = from.dictionaries().trees[i].get();
    tables_[i].pieces.label = [&from](const planned_message&) { return from.name(); };
  }
  take_messages(first, last);
}

/// Values of a dictionary may have dictionaries themselves: those are needed from its first message on.
void planned_dictionaries::take_messages(std::size_t first, std::size_t last) {
  const auto& all = from_.dictionary_batches();
  std::vector<std::size_t> needed_from(all.size(), from_.is_file() ? 0 : first);
  std::vector<std::size_t> begin(all.size(), 0);
  for (bool changed = !from_.is_file(); changed;) {
    changed = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      begin[i] = first_needed(all[i], needed_from[i]);
      const std::size_t order = begin[i] < all[i].messages.size()
                                    ? std::min(needed_from[i], all[i].messages[begin[i]].order)
                                    : needed_from[i];
      for (const tree_node& node : tables_[i].pieces.tree->nodes) {
        if (node.dictionary != no_node && order < needed_from[node.dictionary]) {
          needed_from[node.dictionary] = order;
          changed = true;
        }
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = begin[i]; k < all[i].messages.size(); ++k) {
      if (from_.is_file() || all[i].messages[k].order < last) {
        tables_[i].pieces.messages.push_back(all[i].messages[k]);
        deltas_[i].push_back(all[i].deltas[k]);
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
    return std::ranges::any_of(table.groups, [&](const planned_group& each) {
      for (std::size_t piece = each.pieces.first + 1; piece < each.pieces.end; ++piece) {
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
  const auto versions = static_cast<std::size_t>(std::ranges::count(deltas, false)) +
                        (!deltas.empty() && deltas.front() ? 1 : 0);
  if (from_.is_file() && versions > 1) {
    throw error(errc::format,
                concat(from_.name(), ": a dictionary occurs twice, which is not allowed in a file"));
  }
  table.groups.clear();
  for (piece_group& each : take_groups(table.pieces, [&](std::size_t piece) { return !deltas[piece]; })) {
    table.groups.push_back({std::move(each), {}});
  }
  return table.groups.size() == versions;
}

dictionary_state planned_dictionaries::state(const planned_table& table, std::size_t piece,
                                             std::size_t number) const {
  const planned_table& dictionary = tables_[number];
  const auto& messages = dictionary.pieces.messages;
  const std::size_t order = table.pieces.messages[piece].order;
  const auto after = from_.is_file()
                         ? messages.end()
                         : std::ranges::partition_point(
                               messages, [&](const planned_message& each) { return each.order < order; });
  if (after == messages.begin()) {
    return {};
  }
  const auto last = static_cast<std::size_t>(after - messages.begin()) - 1;
  const auto found = std::ranges::partition_point(
      dictionary.groups, [&](const planned_group& each) { return each.pieces.end <= last; });
  const piece_span& span = dictionary.pieces.span(last, 0);
  return {static_cast<std::size_t>(found - dictionary.groups.begin()), span.row_base + span.rows};
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
