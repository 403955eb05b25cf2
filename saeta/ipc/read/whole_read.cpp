#include "saeta/ipc/read/whole_read.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/column.hpp"
#include "saeta/column/value_reason.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/ipc/codec/decoded_buffers.hpp"
#include "saeta/ipc/read/whole_plan.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

/// Makes the columns that view the slab of a whole read.
class whole_columns {
public:
  whole_columns(std::shared_ptr<context> ctx, const whole_plan& plan, const scattered& made,
                const planned_dictionaries& dictionaries)
      : ctx_(std::move(ctx)), plan_(plan), made_(made), dictionaries_(dictionaries) {}

  /// Makes the column of node `number` of a group, with its children. Groups with the same dictionary share
  /// it.
  [[nodiscard]] column make(const planned_table& table, const planned_group& group, std::size_t number) {
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
    for (const slab_place& place : planned.variadic) {
      parts.buffers.push_back(in_slab(place));
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

private:
  [[nodiscard]] buffer in_slab(const slab_place& place) const {
    return place.present() ? made_.slab.slice(static_cast<std::size_t>(plan_.byte_of(place)),
                                              static_cast<std::size_t>(place.bytes))
                           : buffer();
  }
  [[nodiscard]] std::shared_ptr<const column> dictionary(const dictionary_state& state, std::size_t number) {
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
  [[nodiscard]] dictionary_state longest(const planned_table& table, const piece_group& group,
                                         std::size_t number) const {
    dictionary_state state;
    for (std::size_t piece = group.first; piece < group.end; ++piece) {
      const dictionary_state dictionary_state = dictionaries_.state(table, piece, number);
      state = piece == group.first || dictionary_state.length > state.length ? dictionary_state : state;
    }
    return state;
  }

  std::shared_ptr<context> ctx_;
  const whole_plan& plan_;
  const scattered& made_;
  const planned_dictionaries& dictionaries_;
  /// Dictionaries by number, group and rows.
  std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, std::shared_ptr<const column>> known_;
};

/// Reports the batches whose bytes have been read, approximately: a scatter counts bytes from the first step
/// on. A second scatter of the same batches starts from 0, and the report stays as it is until it is as far.
class batch_progress {
public:
  /// @param batches  their messages are parsed when the first bytes are reported.
  batch_progress(const progress_hook& hook, const piece_table& batches) : hook_(hook), batches_(batches) {}

  [[nodiscard]] scatter_progress of_bytes() {
    if (!hook_) {
      return {};
    }
    return [this](std::uint64_t bytes) {
      if (read_up_to_.empty()) {
        std::ranges::copy(batches_.read_bytes, std::back_inserter(read_up_to_));
        std::partial_sum(read_up_to_.begin(), read_up_to_.end(), read_up_to_.begin());
      }
      const auto end = std::ranges::upper_bound(read_up_to_, bytes);
      tell(static_cast<std::size_t>(end - read_up_to_.begin()));
    };
  }
  void finish() {
    if (hook_ && told_ < batches_.messages.size()) {
      tell(batches_.messages.size());
    }
  }

private:
  void tell(std::size_t batches) {
    batches = std::max(batches, told_);
    if (so_far_.total_rows < 0) { // the messages are parsed by now
      so_far_.total_batches = static_cast<std::int64_t>(batches_.messages.size());
      so_far_.total_rows = std::reduce(batches_.rows.begin(), batches_.rows.end(), std::int64_t{0});
    }
    for (; told_ < batches; ++told_) {
      so_far_.rows += batches_.rows[told_];
      so_far_.bytes += batches_.body_bytes[told_];
    }
    so_far_.batches = static_cast<std::int64_t>(told_);
    hook_(so_far_);
  }

  const progress_hook& hook_;
  const piece_table& batches_;
  std::vector<std::uint64_t> read_up_to_; ///< bytes of all batches up to each one, inclusive
  std::size_t told_ = 0;                  ///< batches that were reported
  ipc::progress so_far_;
};

/// The values of the piece with the bad row. They are read from the source, because fixes have changed some
/// in the slab.
class values_of_piece final : public checked_values {
public:
  values_of_piece(const checked_rows& looked_at, const scatter_check& check, std::int64_t bad_row,
                  const scatter_source& source)
      : table_(looked_at.table->pieces), node_(looked_at.node), check_(check), source_(source),
        piece_(looked_at.first) {
    // A check of run ends counts rows of the run ends child.
    const std::size_t counted = check.kind == check_kind::run_ends ? node_ + 1 : node_;
    const std::int64_t row = table_.span(piece_, counted).row_base + bad_row;
    while (piece_ + 1 < looked_at.end &&
           table_.span(piece_, counted).row_base + table_.span(piece_, counted).rows <= row) {
      ++piece_;
    }
    span_ = &table_.span(piece_, counted);
    type_ = table_.tree->nodes[counted].type;
    row_ = row - span_->row_base;
  }

  [[nodiscard]] error found_wrong() {
    const failed_check failed{check_.kind, check_.width, check_.limit, row_};
    const bool no_entries = check_.kind == check_kind::indices && check_.limit == 0;
    return error(errc::format, concat(table_.place(piece_), ": ", table_.tree->label(node_), ": ",
                                      reason_of(*table_.tree->nodes[node_].type, failed, *this),
                                      no_entries ? ", or was not sent before" : ""));
  }

  std::int64_t number(std::size_t buffer, std::int64_t row, std::int32_t width) override {
    const auto bytes = static_cast<std::size_t>(width);
    return read_offset(source_.read(byte_of(buffer, row * width), bytes).data(), bytes, 0);
  }
  std::int64_t child_rows(std::size_t child) override {
    std::size_t at = node_ + 1;
    for (std::size_t i = 0; i < child; ++i) {
      at = table_.tree->nodes[at].end;
    }
    return table_.span(piece_, at).rows;
  }
  std::int64_t variadic_bytes(std::size_t buffer) override {
    return static_cast<std::int64_t>(variadic(buffer).bytes);
  }
  std::span<const std::byte> text(std::int64_t row) override {
    if (check_.kind == check_kind::texts) {
      const std::int64_t first = number(1, row, check_.width);
      const std::int64_t end = number(1, row + 1, check_.width);
      return source_.read(span_->at[2] + static_cast<std::uint64_t>(first),
                          static_cast<std::size_t>(end - first));
    }
    constexpr std::int64_t inline_bytes = 12;
    constexpr std::int32_t word = sizeof(std::int32_t);
    const std::int64_t size = number(1, 4 * row, word);
    const std::uint64_t at = size <= inline_bytes
                                 ? byte_of(1, (4 * row + 1) * word)
                                 : variadic(static_cast<std::size_t>(number(1, 4 * row + 2, word))).at +
                                       static_cast<std::uint64_t>(number(1, 4 * row + 3, word));
    return source_.read(at, static_cast<std::size_t>(size));
  }

private:
  /// @param byte  counted from the first row
  [[nodiscard]] std::uint64_t byte_of(std::size_t buffer, std::int64_t byte) const {
    return span_->at[buffer] + static_cast<std::uint64_t>(span_->first * type_->buffer(buffer).width + byte);
  }
  [[nodiscard]] const variadic_buffer& variadic(std::size_t buffer) const {
    return table_.variadic[piece_][span_->variadic + buffer];
  }

  const piece_table& table_;
  std::size_t node_;
  const scatter_check& check_;
  source_window source_;
  std::size_t piece_;
  const piece_span* span_ = nullptr; ///< of the node that has the values
  const data_type* type_ = nullptr;  ///< of that node
  std::int64_t row_ = 0;             ///< the bad row, counted in the piece
};

/// @throws error format if a check failed.
void require_good(const whole_plan& plan, const scattered& made, const scatter_source& source) {
  for (std::size_t i = 0; i < made.bad_rows.size(); ++i) {
    if (made.bad_rows[i] != no_bad_row) {
      throw values_of_piece(plan.checks()[i], plan.steps().checks[i], made.bad_rows[i], source).found_wrong();
    }
  }
}

/// Reads tables of pieces into one slab. Each group becomes a column for each root of its tree.
class slab_read {
public:
  slab_read(const std::shared_ptr<context>& ctx, const planned_source& from,
            const planned_dictionaries& dictionaries, std::vector<planned_table*> tables)
      : ctx_(ctx), dictionaries_(dictionaries), tables_(std::move(tables)), bodies_(from.bytes()),
        plan_(from.check(), from.texts(), &dictionaries) {}
  slab_read(const slab_read&) = delete;
  slab_read& operator=(const slab_read&) = delete;

  /// Returns false if an assumption about compressed offsets was false.
  /// @param movement_bytes  of the movement that this read is a part of; 0: it is all of it
  bool run(const scatter_progress& progress, std::uint64_t movement_bytes = 0) {
    for (planned_table* const table : tables_) {
      bodies_.place(table->pieces);
    }
    for (planned_table* const table : tables_) {
      plan_.lay_out(*table);
    }
    plan_.end_layout();
    for (const planned_table* const planned_table : tables_) {
      plan_.add_deferred_offsets(*planned_table);
    }
    const bool deferred = !plan_.steps().early.empty();
    if (!deferred) {
      add_steps();
    }
    made_ = staging_ring::of(ctx_)->scatter(ctx_, plan_.steps(), bodies_.all(), "read_ipc", progress,
                                            deferred ? [this] { add_steps(); } : std::function<void()>(),
                                            movement_bytes);
    if (!bodies_.matches_assumption()) {
      return false;
    }
    finish_last_parts();
    require_good(plan_, made_, bodies_.all());
    return true;
  }

  /// Makes columns that view the slab. Valid as long as this object lives.
  [[nodiscard]] whole_columns columns() const { return {ctx_, plan_, made_, dictionaries_}; }

private:
  void add_steps() {
    for (planned_table* const table : tables_) {
      plan_.settle(*table, [this](std::uint64_t at) { return bodies_.borders_at(at); });
    }
    for (planned_table* const planned_table : tables_) {
      plan_.add_steps(*planned_table);
    }
    plan_.finish();
  }

  /// Frames end with the last part of their batch.
  void finish_last_parts() const {
    for (const planned_table* const table : tables_) {
      const piece_table& pieces = table->pieces;
      for (std::size_t piece = 0; piece < pieces.decoders.size(); ++piece) {
        const auto& decoders = pieces.decoders[piece];
        if (decoders != nullptr &&
            pieces.messages[piece].first_row + pieces.rows[piece] == pieces.batch_rows[piece]) {
          decoders->finish(
              [&](std::size_t node) { return concat(pieces.place(piece), ": ", pieces.tree->label(node)); });
        }
      }
    }
  }

  const std::shared_ptr<context>& ctx_;
  const planned_dictionaries& dictionaries_;
  std::vector<planned_table*> tables_;
  packed_bodies bodies_;
  whole_plan plan_;
  scattered made_;
};

/// Parses the messages of tables and groups them. Returns false if a plan can't take them.
/// @param assume  as in `read_pieces`
using table_planner = std::function<bool(bool assume)>;

/// Plans tables and reads them. Compressed list offsets are assumed to be as writers write them, so that they
/// are decoded once. Only the decoded offsets show whether they are: if not, this plans without the
/// assumption and reads again.
/// Returns null if a plan can't take the tables.
std::unique_ptr<slab_read> read_slab(const std::shared_ptr<context>& ctx, const planned_source& from,
                                     const planned_dictionaries& dictionaries,
                                     const std::vector<planned_table*>& tables, const table_planner& plan,
                                     const scatter_progress& progress = {},
                                     std::uint64_t movement_bytes = 0) {
  bool assume = true;
  while (plan(assume)) {
    auto reading = std::make_unique<slab_read>(ctx, from, dictionaries, tables);
    if (reading->run(progress, movement_bytes)) {
      return reading;
    }
    assume = false; // the next read assumes nothing
  }
  return nullptr;
}

std::vector<planned_table*> tables_of(planned_dictionaries& dictionaries) {
  std::vector<planned_table*> tables;
  for (planned_table& table : dictionaries.tables()) {
    tables.push_back(&table);
  }
  return tables;
}

void group_batches(planned_table& batches, const planned_dictionaries& dictionaries, bool join) {
  const auto cut = [&](std::size_t piece) { return !join || dictionaries.replaced(batches, piece); };
  batches.groups.clear();
  for (piece_group& take_group : take_groups(batches.pieces, cut)) {
    batches.groups.push_back({std::move(take_group), {}});
  }
}

table table_of(const std::shared_ptr<context>& ctx, const planned_source& from, const planned_table& batches,
               whole_columns columns) {
  std::vector<batch> joined;
  for (const planned_group& group : batches.groups) {
    batch one;
    for (std::size_t piece = group.pieces.first; piece < group.pieces.end; ++piece) {
      one.rows = checked_add(one.rows, batches.pieces.rows[piece], "rows of the source");
    }
    const auto& roots = from.tree().roots;
    std::vector<column> decoded;
    decoded.reserve(roots.size());
    for (const std::size_t root : roots) {
      decoded.push_back(columns.make(batches, group, root));
    }
    if (std::ranges::is_sorted(from.order()) && roots.size() == from.order().size()) { // each one once
      one.columns = std::move(decoded);
    } else {
      for (const int place : from.order()) {
        one.columns.push_back(decoded[static_cast<std::size_t>(place)]);
      }
    }
    joined.push_back(
        conform(std::move(one), from.fields()->fields())); // the tree is that of the first source
  }
  return table::make_sharing(ctx, from.fields(), std::move(joined));
}

} // namespace

piece_table batches_of(const planned_source& from, std::vector<planned_message> messages) {
  piece_table table;
  table.tree = &from.tree();
  table.messages = std::move(messages);
  table.label = [&from](const planned_message& message) { return from.label_of(message); };
  return table;
}

void run_here(std::size_t tasks, const std::function<void(std::size_t task)>& work) {
  for (std::size_t task = 0; task < tasks; ++task) {
    work(task);
  }
}

std::optional<whole_result> read_whole(const std::shared_ptr<context>& ctx, const planned_source& from,
                                       std::span<const batch_span> spans, bool join,
                                       const progress_hook& hook) {
  const auto ring = staging_ring::of(ctx);
  const auto run_in_parallel = [&](std::size_t tasks, const std::function<void(std::size_t)>& work) {
    ring->run_in_parallel(tasks, work);
  };
  planned_table batches{.pieces = batches_of(from, from.messages_of(spans)), .groups = {}};
  planned_dictionaries dictionaries(from, batches.pieces.messages);
  const auto plan = [&](bool assume) {
    if (!dictionaries.plan(assume, run_in_parallel) ||
        !read_pieces(batches.pieces, from.bytes(), assume, run_in_parallel)) {
      return false;
    }
    group_batches(batches, dictionaries, join);
    return true;
  };
  std::vector<planned_table*> tables = tables_of(dictionaries);
  tables.push_back(&batches);
  batch_progress progress(hook, batches.pieces);
  const auto reading = read_slab(ctx, from, dictionaries, tables, plan, progress.of_bytes());
  if (reading == nullptr) {
    return std::nullopt;
  }
  const auto& bodies = batches.pieces.body_bytes;
  whole_result result{table_of(ctx, from, batches, reading->columns()),
                      static_cast<std::int64_t>(batches.pieces.messages.size()),
                      std::accumulate(bodies.begin(), bodies.end(), std::uint64_t{0})};
  progress.finish();
  return result;
}

bool read_values(const std::shared_ptr<context>& ctx, const planned_source& from,
                 planned_dictionaries& dictionaries) {
  std::vector<planned_table>& tables = dictionaries.tables();
  if (tables.empty()) {
    return true;
  }
  const auto plan = [&](bool assume) { return dictionaries.plan(assume, run_here); };
  const auto reading = read_slab(ctx, from, dictionaries, tables_of(dictionaries), plan);
  if (reading == nullptr) {
    return false;
  }
  whole_columns columns = reading->columns();
  std::vector<std::vector<std::shared_ptr<const column>>> values(tables.size());
  for (std::size_t number = 0; number < tables.size(); ++number) {
    for (const planned_group& group : tables[number].groups) {
      values[number].push_back(std::make_shared<const column>(columns.make(tables[number], group, 0)));
    }
  }
  dictionaries.values = std::move(values);
  return true;
}

std::unique_ptr<scan> scan_planned(const std::shared_ptr<context>& ctx,
                                   const std::shared_ptr<const planned_source>& from, scan_list list,
                                   const scan_options& options) {
  planned_dictionaries dictionaries(*from, from->messages_of(list.spans));
  return dictionaries.plan(true, run_here) ? std::make_unique<scan>(ctx, from, std::move(list), options)
                                           : nullptr;
}

table read_window(const std::shared_ptr<context>& ctx, const planned_source& from, piece_table batches,
                  const planned_dictionaries& dictionaries) {
  planned_table window{.pieces = std::move(batches), .groups = {}};
  const auto plan = [&](bool assume) {
    if (!assume) {
      read_pieces(window.pieces, from.bytes(), false, run_here);
    }
    group_batches(window, dictionaries, true);
    return true;
  };
  const auto reading = read_slab(ctx, from, dictionaries, {&window}, plan, {}, from.body_bytes());
  return table_of(ctx, from, window, reading->columns());
}

} // namespace saeta::ipc::detail
