#include "saeta/ipc/read/whole_read.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/codec/packed_bodies.hpp"
#include "saeta/ipc/read/whole_checks.hpp"
#include "saeta/ipc/read/whole_columns.hpp"
#include "saeta/ipc/read/whole_plan.hpp"
#include "saeta/staging/staging_ring.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace saeta::ipc::detail {
namespace {

/// The columns to decode, each once and in the order of the source, and for each requested column its index
/// among them.
struct decoded_columns {
  std::vector<int> numbers;
  std::vector<field> fields;
  std::vector<std::size_t> order;
};

decoded_columns columns_of(const whole_request& asked) {
  const projection& projected = *asked.projected;
  decoded_columns made;
  made.order.resize(projected.order.size());
  std::vector<std::size_t> first(projected.order.size());
  std::iota(first.begin(), first.end(), std::size_t{0});
  std::ranges::stable_sort(first, {}, [&](std::size_t i) { return projected.order[i]; });
  for (const std::size_t i : first) {
    const int place = projected.order[i];
    const int number = projected.decoded.empty() ? place : projected.decoded[static_cast<std::size_t>(place)];
    if (made.numbers.empty() || made.numbers.back() != number) {
      made.numbers.push_back(number);
      made.fields.push_back(asked.fields->fields[i]);
    }
    made.order[i] = made.numbers.size() - 1;
  }
  return made;
}

/// Reads all batches and the dictionaries that they need.
class whole_reader {
public:
  /// @param assume  assume that compressed offsets are as writers write them (read_pieces)
  whole_reader(const std::shared_ptr<context>& ctx, const whole_request& asked, bool assume)
      : ctx_(ctx), asked_(asked), assume_(assume), source_(source_of(*asked.from)),
        bodies_(source_, [this](std::uint64_t at) { return label_of(at); }), ring_(staging_ring::of(ctx)),
        plan_(asked.check, asked.texts,
              [this](const planned_table& table, std::size_t piece, std::size_t number) {
                return state(table, piece, number);
              }) {}
  whole_reader(const whole_reader&) = delete;
  whole_reader& operator=(const whole_reader&) = delete;

  std::optional<whole_result> read(const progress_hook& hook) {
    if (!find() || !group()) {
      return std::nullopt;
    }
    for_tables([this](planned_table& each) { bodies_.place(each.pieces); });
    for_tables([this](planned_table& each) { plan_.lay_out(each); });
    plan_.end_layout();
    for_tables([this](planned_table& each) { plan_.add_late_offsets(each); });
    const auto add_steps = [this] {
      for_tables([this](planned_table& each) {
        plan_.settle(each, [this](std::uint64_t at) { return bodies_.seen(at); });
      });
      for_tables([this](planned_table& each) { plan_.add_steps(each); });
      plan_.finish();
    };
    const bool late = !plan_.steps().early.empty();
    if (!late) {
      add_steps();
    }
    const scattered made = ring_->scatter(ctx_, plan_.steps(), bodies_.all(), "read_ipc", progress(hook),
                                          late ? add_steps : std::function<void()>());
    if (!bodies_.as_assumed()) {
      assumed_wrongly_ = true;
      return std::nullopt;
    }
    require_good(plan_, made, bodies_.all());
    whole_columns columns(ctx_, plan_, made, dictionaries_,
                          [this](const planned_table& table, std::size_t piece, std::size_t number) {
                            return state(table, piece, number);
                          });
    std::vector<batch> batches;
    for (const planned_group& group : batches_.groups) {
      batches.push_back(batch_of(group, columns));
    }
    whole_result result{table::make(ctx_, *asked_.fields, std::move(batches)),
                        static_cast<std::int64_t>(batches_.pieces.messages.size()), body_bytes()};
    if (hook && !batches_.pieces.messages.empty() && told_ < batches_.pieces.messages.size()) {
      tell(hook, batches_.pieces.messages.size());
    }
    return result;
  }

  /// Whether `read` returned nullopt because an assumption was false.
  [[nodiscard]] bool assumed_wrongly() const noexcept { return assumed_wrongly_; }

private:
  static scatter_source source_of(const byte_source& from) {
    return {from.size(),
            [&from](std::uint64_t position, std::span<std::byte> target) { from.read_at(position, target); }};
  }

  /// Finds the messages, makes the tree of columns and parses each message.
  bool find() {
    source_window window(source_);
    auto found = find_messages(window, asked_.format, asked_.from->name(), asked_.batches);
    if (!found) {
      return false;
    }
    require_range(*found);
    decoded_ = columns_of(asked_);
    auto tree = make_tree(*asked_.described, decoded_.numbers, decoded_.fields, schema_table(*found), trees_);
    if (!tree) {
      return false;
    }
    tree_ = std::move(*tree);
    file_ = found->file;
    first_batch_ = found->first_batch;
    batches_.pieces.tree = &tree_;
    batches_.pieces.messages = std::move(found->batches);
    batches_.pieces.place = [this](std::size_t piece) {
      return concat(asked_.from->name(), ": batch ", first_batch_ + static_cast<std::int64_t>(piece));
    };
    dictionaries_.resize(trees_.trees.size());
    deltas_.resize(trees_.trees.size());
    for (std::size_t i = 0; i < dictionaries_.size(); ++i) {
      dictionaries_[i].pieces.tree = trees_.trees[i].get();
      dictionaries_[i].pieces.place = [this](std::size_t) { return asked_.from->name(); };
    }
    for (const planned_dictionary& each : found->dictionaries) {
      if (const auto number = trees_.numbers.find(each.id); number != trees_.numbers.end()) {
        dictionaries_[number->second].pieces.messages.push_back(each.message);
        deltas_[number->second].push_back(each.delta);
      }
    }
    const auto in_parallel = [this](std::size_t tasks, const std::function<void(std::size_t)>& work) {
      ring_->in_parallel(tasks, work);
    };
    for (planned_table& each : dictionaries_) {
      if (!read_pieces(each.pieces, source_, assume_, in_parallel)) {
        return false;
      }
    }
    return read_pieces(batches_.pieces, source_, assume_, in_parallel);
  }

  /// The number of batches in a stream is known only now.
  void require_range(const planned_messages& found) const {
    const auto [first, last] = asked_.batches;
    if (!found.file && last != std::numeric_limits<std::int64_t>::max() && found.passed < last) {
      throw error(errc::out_of_range, concat(asked_.from->name(), ": batches [", first, ", ", last,
                                             ") of a stream that has ", found.passed));
    }
  }

  bool group() {
    for (std::size_t number = 0; number < dictionaries_.size(); ++number) {
      planned_table& table = dictionaries_[number];
      const auto cut = [&](std::size_t piece) { return !deltas_[number][piece]; };
      const auto versions = static_cast<std::size_t>(std::ranges::count(deltas_[number], false)) +
                            (!deltas_[number].empty() && deltas_[number].front() ? 1 : 0);
      if (file_ && versions > 1) {
        throw error(errc::format,
                    concat(asked_.from->name(), ": a dictionary is given twice, which a file can't hold"));
      }
      add_groups(table, cut);
      if (table.groups.size() != versions) {
        return false; // the dictionary is larger than its 32-bit offsets can count
      }
    }
    for (const planned_table& table : dictionaries_) {
      for (const planned_group& each : table.groups) {
        for (std::size_t piece = each.pieces.first + 1; piece < each.pieces.end; ++piece) {
          if (replaced(table, piece)) {
            return false;
          }
        }
      }
    }
    add_groups(batches_, [this](std::size_t piece) { return !asked_.join || replaced(batches_, piece); });
    return true;
  }

  static void add_groups(planned_table& table, const std::function<bool(std::size_t)>& cut) {
    for (piece_group& each : take_groups(table.pieces, cut)) {
      table.groups.push_back({std::move(each), {}});
    }
  }

  /// Whether a piece has a different dictionary than the piece before it.
  [[nodiscard]] bool replaced(const planned_table& table, std::size_t piece) const {
    return std::ranges::any_of(table.pieces.tree->nodes, [&](const tree_node& node) {
      return node.dictionary != no_node &&
             state(table, piece - 1, node.dictionary).group != state(table, piece, node.dictionary).group;
    });
  }

  /// In a file all dictionaries apply to all batches. In a stream those before a batch apply.
  [[nodiscard]] dictionary_state state(const planned_table& table, std::size_t piece,
                                       std::size_t number) const {
    const planned_table& dictionary = dictionaries_[number];
    const auto& messages = dictionary.pieces.messages;
    const std::size_t order = table.pieces.messages[piece].order;
    const auto after = file_ ? messages.end()
                             : std::ranges::partition_point(
                                   messages, [&](const planned_message& each) { return each.order < order; });
    if (after == messages.begin()) {
      return {};
    }
    const auto last = static_cast<std::size_t>(after - messages.begin()) - 1;
    const auto group = std::ranges::partition_point(
        dictionary.groups, [&](const planned_group& each) { return each.pieces.end <= last; });
    const piece_span& span = dictionary.pieces.span(last, 0);
    return {static_cast<std::size_t>(group - dictionary.groups.begin()), span.row_base + span.rows};
  }

  /// Runs `action` for all tables, dictionaries first.
  template <class Action>
  void for_tables(Action action) {
    for (planned_table& each : dictionaries_) {
      action(each);
    }
    action(batches_);
  }

  [[nodiscard]] std::vector<const planned_table*> tables() const {
    std::vector<const planned_table*> all;
    for (const planned_table& each : dictionaries_) {
      all.push_back(&each);
    }
    all.push_back(&batches_);
    return all;
  }

  /// Returns the label of the buffer that begins at a position.
  [[nodiscard]] std::string label_of(std::uint64_t at) const {
    for (const planned_table* const table : tables()) {
      const piece_table& pieces = table->pieces;
      for (std::size_t i = 0; i < pieces.spans.size(); ++i) {
        const std::size_t piece = i / pieces.tree->nodes.size();
        const piece_span& span = pieces.spans[i];
        const auto behind_views =
            span.variadic_count == 0
                ? std::span<const variadic_buffer>()
                : std::span(pieces.variadic[piece]).subspan(span.variadic, span.variadic_count);
        if (std::ranges::find(span.at, at) != span.at.end() ||
            std::ranges::find(behind_views, at, &variadic_buffer::at) != behind_views.end()) {
          return concat(pieces.place(piece), ": ", pieces.tree->label(i % pieces.tree->nodes.size()));
        }
      }
    }
    return asked_.from->name();
  }

  [[nodiscard]] batch batch_of(const planned_group& group, whole_columns& columns) const {
    batch made;
    for (std::size_t piece = group.pieces.first; piece < group.pieces.end; ++piece) {
      made.rows = checked_add(made.rows, batches_.pieces.rows[piece], "rows of the source");
    }
    std::vector<column> decoded;
    for (const std::size_t root : tree_.roots) {
      decoded.push_back(columns.make(batches_, group, root));
    }
    for (const std::size_t place : decoded_.order) {
      made.columns.push_back(decoded[place]);
    }
    return made;
  }

  [[nodiscard]] std::uint64_t body_bytes() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t each : batches_.pieces.body_bytes) {
      sum += each;
    }
    return sum;
  }

  /// Reports the batches whose bytes have been read, approximately: the scatter counts bytes from the first
  /// step on.
  scatter_progress progress(const progress_hook& hook) {
    if (!hook) {
      return {};
    }
    for (const std::uint64_t each : batches_.pieces.read_bytes) {
      body_before_.push_back((body_before_.empty() ? 0 : body_before_.back()) + each);
    }
    return [this, &hook](std::uint64_t bytes) {
      const auto end = std::ranges::upper_bound(body_before_, bytes);
      tell(hook, static_cast<std::size_t>(end - body_before_.begin()));
    };
  }

  void tell(const progress_hook& hook, std::size_t batches) {
    batches = std::max(batches, told_);
    for (; told_ < batches; ++told_) {
      so_far_.rows += batches_.pieces.rows[told_];
      so_far_.bytes += batches_.pieces.body_bytes[told_];
    }
    so_far_.batches = static_cast<std::int64_t>(told_);
    hook(so_far_);
  }

  std::shared_ptr<context> ctx_;
  const whole_request& asked_;
  bool assume_;
  bool assumed_wrongly_ = false;
  scatter_source source_;
  packed_bodies bodies_;
  std::shared_ptr<staging_ring> ring_;
  decoded_columns decoded_;
  column_tree tree_;
  dictionary_trees trees_;
  planned_table batches_;
  std::vector<planned_table> dictionaries_;
  std::vector<std::vector<bool>> deltas_;
  whole_plan plan_;
  bool file_ = false;
  std::int64_t first_batch_ = 0;
  std::vector<std::uint64_t> body_before_; ///< decoded body bytes of all batches up to each one, inclusive
  std::size_t told_ = 0;                   ///< batches that were reported
  ipc::progress so_far_;
};

} // namespace

std::optional<whole_result> read_whole(const std::shared_ptr<context>& ctx, const whole_request& asked,
                                       const progress_hook& hook) {
  ipc::progress told;
  const progress_hook rising = [&](const ipc::progress& so_far) {
    if (so_far.batches >= told.batches) { // a second read starts from 0
      told = so_far;
    }
    hook(told);
  };
  const progress_hook heard = hook ? rising : hook;
  {
    whole_reader reading(ctx, asked, true);
    auto made = reading.read(heard);
    if (!reading.assumed_wrongly()) {
      return made;
    }
  }
  return whole_reader(ctx, asked, false).read(heard);
}

} // namespace saeta::ipc::detail
