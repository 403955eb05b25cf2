#include "saeta/ipc/read/planned_source.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/read/whole_plan.hpp"
#include "saeta/ipc/read/whole_read.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace saeta::ipc::detail {
namespace {

/// The number of batches in a stream is known only when it has been walked.
void require_range(const planned_messages& messages, const read_request& request) {
  const auto [first, last] = request.batches;
  if (!messages.file && last != std::numeric_limits<std::int64_t>::max() && messages.passed < last) {
    throw error(errc::out_of_range, concat(request.from->name(), ": batches [", first, ", ", last,
                                           ") of a stream that has ", messages.passed, " batches"));
  }
}

bool same_positions(const dictionary_trees& a, const dictionary_trees& b) {
  return std::ranges::equal(a.trees, b.trees,
                            [](const auto& one, const auto& other) { return one->same_positions(*other); });
}

} // namespace

std::size_t messages_before(std::span<const planned_message> dictionary, const planned_message& user) {
  const auto after = std::ranges::partition_point(dictionary, [&](const planned_message& message) {
    return user.of_file ? message.begin <= user.dictionaries : message.order < user.order;
  });
  const bool given = after != dictionary.begin() && std::prev(after)->begin == user.dictionaries;
  return given ? static_cast<std::size_t>(after - dictionary.begin()) : 0;
}

planned_source::planned_source(const read_request& request)
    : described_(request.described), fields_(request.fields), check_(request.check), texts_(request.texts) {
  bytes_.read = [this](std::uint64_t position, std::span<std::byte> target) { read(position, target); };
}

std::shared_ptr<const planned_source> planned_source::find(std::span<const read_request> requests) {
  std::shared_ptr<planned_source> source(new planned_source(requests.front()));
  const bool planned = std::ranges::all_of(requests, [&](const read_request& request) {
    check_interrupt(); // there may be thousands of sources
    return source->add(request, requests.size() == 1);
  });
  source->last_contents_ = std::nullopt;
  const bool sound = planned && (source->dictionary_batches_.empty() ||
                                 planned_dictionaries(*source, source->batches_).check_others(run_here));
  return sound ? source : nullptr;
}

bool planned_source::add(const read_request& request, bool only) {
  constexpr std::uint64_t alignment = 64; // of positions in a message
  const source& from = request.from;
  const scatter_source alone{
      .bytes = from->size(),
      .read = [&](std::uint64_t position, std::span<std::byte> target) { from->read_at(position, target); }};
  source_window window(alone);
  const auto position = find_messages(window, request.format, request.front, from->name(), request.batches);
  if (!position) {
    return false;
  }
  require_range(*position, request);
  dictionary_trees trees;
  column_tree tree = make_tree(request.described->fields(), request.projected->decoded,
                               schema_table(request.format, request.front), trees, version_5);
  if (!trees.same_types) {
    return false;
  }
  const std::uint64_t begin = round_up(bytes_.bytes, alignment);
  bytes_.bytes = checked_add(begin, from->size(), "bytes of all sources");
  const bool first = sources_.empty();
  sources_.push_back({from, begin});
  require_dictionaries(*position, trees, schema_table(request.format, request.front));
  add_messages(*position, trees, only);
  if (first) {
    tree_ = std::move(tree);
    trees_ = std::move(trees);
    order_ = request.projected->order;
    return true;
  }
  return request.projected->order == order_ && tree_.same_positions(tree) && same_positions(trees_, trees);
}

/// A dictionary of a column that is not read is skipped.
void planned_source::require_dictionaries(const planned_messages& messages, const dictionary_trees& trees,
                                          const flat_table& schema) const {
  known_ids ids;
  try {
    for (const planned_dictionary& dictionary : messages.dictionaries) {
      if (!trees.numbers.contains(dictionary.id)) {
        require_known(dictionary.id, schema, ids);
      }
    }
  } catch (const error& failure) {
    rethrow(failure, sources_.back().from->name());
  }
}

/// Returns a message of the last source with positions among all sources.
planned_message planned_source::placed(planned_message message, bool of_file) const {
  const std::uint64_t begin = sources_.back().begin;
  message.metadata += begin;
  message.body += begin;
  message.begin = begin;
  message.end = bytes_.bytes;
  message.dictionaries = begin;
  message.order += next_order_;
  message.of_file = of_file;
  return message;
}

/// Adds the messages of the last source. @param only  whether there are no other sources
void planned_source::add_messages(const planned_messages& messages, const dictionary_trees& trees,
                                  bool only) {
  auto content = only ? std::nullopt : contents(messages, trees);
  const bool known = content && content == last_contents_;
  if (!known) {
    add_dictionaries(messages, trees);
    dictionaries_begin_ = sources_.back().begin;
    last_contents_ = std::move(content);
  }
  std::size_t count = 0;
  for (const planned_dictionary& dictionary : messages.dictionaries) {
    count = std::max(count, dictionary.message.order + 1);
  }
  for (const planned_message& batch : messages.batches) {
    count = std::max(count, batch.order + 1);
    batches_.push_back(placed(batch, messages.file));
    batches_.back().dictionaries = known ? dictionaries_begin_ : sources_.back().begin;
    body_bytes_ += batch.body_bytes; // claims may overflow; they only choose the size of chunks
  }
  next_order_ += count;
}

/// Dictionaries of several sources are matched by the order of their columns, because their ids may differ.
void planned_source::add_dictionaries(const planned_messages& planned_messages,
                                      const dictionary_trees& trees) {
  dictionary_batches_.resize(trees.trees.size());
  for (const planned_dictionary& dictionary : planned_messages.dictionaries) {
    const auto number = trees.numbers.find(dictionary.id);
    if (number == trees.numbers.end()) {
      continue;
    }
    auto& [messages, deltas] = dictionary_batches_[number->second];
    const bool again = !messages.empty() && messages.back().begin == sources_.back().begin;
    if (again && planned_messages.file && !dictionary.delta) {
      throw error(errc::format, concat(sources_.back().from->name(),
                                       ": a dictionary occurs twice, which is not allowed in a file"));
    }
    if (dictionary.delta && !again) {
      rethrow(delta_of_nothing(dictionary.id),
              concat(sources_.back().from->name(), ": ", trees.trees[number->second]->root_label));
    }
    messages.push_back(placed(dictionary.message, planned_messages.file));
    deltas.push_back(dictionary.delta);
  }
}

/// Returns all bytes of the dictionaries of the last source; nullopt for a stream, and where comparing them
/// would take longer than reading them again.
std::optional<std::vector<std::byte>> planned_source::contents(const planned_messages& messages,
                                                               const dictionary_trees& trees) const {
  constexpr std::uint64_t most_bytes = 4u << 20;
  std::vector<std::byte> content;
  const byte_source& from = *sources_.back().from;
  for (const planned_dictionary& dictionary : messages.dictionaries) {
    if (!messages.file || trees.numbers.find(dictionary.id) == trees.numbers.end()) {
      continue;
    }
    const std::uint64_t room = from.size() - dictionary.message.body;
    const std::uint64_t bytes =
        dictionary.message.metadata_bytes + std::min(dictionary.message.body_bytes, most_bytes);
    if (dictionary.message.body_bytes > room || content.size() + bytes > most_bytes) {
      return std::nullopt;
    }
    const auto begin = static_cast<std::ptrdiff_t>(content.size());
    content.resize(content.size() + bytes);
    const auto added = std::span(content).subspan(static_cast<std::size_t>(begin));
    from.read_at(dictionary.message.metadata, added.first(dictionary.message.metadata_bytes));
    from.read_at(dictionary.message.body, added.subspan(dictionary.message.metadata_bytes));
  }
  return content.empty() ? std::nullopt : std::optional(std::move(content));
}

std::vector<planned_source::placed_source>::const_iterator
planned_source::source_at(std::uint64_t position) const noexcept {
  return std::prev(std::ranges::upper_bound(sources_, position, {}, &placed_source::begin));
}

/// A range may have the gap behind a source in it, and bytes of the source that follows.
void planned_source::read(std::uint64_t position, std::span<std::byte> target) const {
  for (auto source = source_at(position); !target.empty(); ++source) {
    const std::uint64_t at = position - source->begin;
    const bool last = std::next(source) == sources_.end();
    const std::uint64_t size = last ? at + target.size() : source->from->size();
    if (at < size) {
      source->from->read_at(at, target.first(std::min<std::uint64_t>(target.size(), size - at)));
    }
    const std::uint64_t next = last ? position + target.size() : std::next(source)->begin;
    target = target.subspan(std::min<std::uint64_t>(target.size(), next - position));
    position = next;
  }
}

bool planned_source::fetches_ahead() const noexcept {
  return std::ranges::all_of(sources_, [](const placed_source& each) { return each.from->fetches_ahead(); });
}

std::shared_ptr<void> planned_source::fetch_ahead(std::span<const byte_range> ranges) const {
  std::vector<std::vector<byte_range>> of_source(sources_.size());
  for (const byte_range& range : ranges) {
    const auto from = source_at(range.offset);
    of_source[static_cast<std::size_t>(from - sources_.begin())].push_back(
        {range.offset - from->begin, range.bytes});
  }
  auto kept = std::make_shared<std::vector<std::shared_ptr<void>>>();
  for (std::size_t source = 0; source < of_source.size(); ++source) {
    if (!of_source[source].empty()) {
      kept->push_back(sources_[source].from->fetch_ahead(of_source[source]));
    }
  }
  return kept;
}

fetch_window::messages planned_source::messages_to_fetch(std::span<const batch_span> spans) const {
  fetch_window::messages all;
  all.count = spans.size();
  all.at = [this, spans](std::size_t number) {
    const planned_message& message = batches_[spans[number].batch];
    const std::uint64_t before_body = message.body - message.metadata;
    return fetch_window::message{{message.metadata, before_body + message.body_bytes}, before_body};
  };
  const bool whole = tree_.roots.size() == described_->fields().fields.size();
  const bool parts = std::ranges::any_of(
      spans, [](const batch_span& span) { return span.first_row != 0 || span.rows >= 0; });
  if (!whole || parts) {
    all.ranges = [this, spans](std::size_t number) { return ranges_of(message_of(spans[number])); };
    all.alike = !parts;
  }
  all.fetch = [this](std::span<const byte_range> ranges) { return fetch_ahead(ranges); };
  return all;
}

/// Returns what a plan reads of a message. Of a part of a batch these are the bytes of as many values of the
/// same length: where values differ in length, the rest is read when it is needed.
std::vector<byte_range> planned_source::ranges_of(const planned_message& message) const {
  source_window window(bytes_);
  const auto layout = read_batch_message(window, message, tree_);
  if (!layout) {
    return {};
  }
  constexpr double margin = 64; // bytes: bits of a byte, offsets of the row behind the last one
  const auto rows = static_cast<double>(std::max<std::int64_t>(layout->rows, 1));
  const auto first = static_cast<double>(message.first_row) / rows;
  const auto count = message.rows < 0 ? 1.0 - first : static_cast<double>(message.rows) / rows;
  std::vector<byte_range> ranges;
  for (const buffer_place& place : body_ranges(*layout, tree_, -1)) {
    const auto bytes = static_cast<double>(place.length);
    const auto begin = static_cast<std::uint64_t>(std::max(0.0, bytes * first - margin));
    const auto end = static_cast<std::uint64_t>(std::min(bytes, bytes * (first + count) + margin));
    ranges.push_back({message.body + static_cast<std::uint64_t>(place.offset) + begin, end - begin});
  }
  return ranges;
}

const std::string& planned_source::name_at(std::uint64_t position) const noexcept {
  return source_at(position)->from->name();
}

planned_message planned_source::message_of(const batch_span& span) const {
  planned_message message = batches_[span.batch];
  message.first_row = span.first_row;
  message.rows = span.rows;
  return message;
}

std::vector<planned_message> planned_source::messages_of(std::span<const batch_span> spans) const {
  std::vector<planned_message> messages;
  messages.reserve(spans.size());
  for (const batch_span& span : spans) {
    messages.push_back(message_of(span));
  }
  return messages;
}

scan_list planned_source::everything() const {
  scan_list all;
  for (std::size_t batch = 0; batch < batches_.size(); ++batch) {
    all.spans.push_back({.batch = batch});
  }
  return all;
}

std::string planned_source::label_of(const planned_message& batch) const {
  const std::string whole = concat(name_at(batch.begin), ": batch ", batch.number);
  return batch.first_row == 0 ? whole : concat(whole, " from row ", batch.first_row, " on");
}
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
