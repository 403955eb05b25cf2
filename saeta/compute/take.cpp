#include "saeta/compute/take.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/compute/take_level.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <iterator>

namespace saeta {

namespace {

constexpr std::size_t run_values = 1; ///< child of a run-end encoded column

/// The rows of a child that can be chosen. Children that are not aligned with the rows of the column are
/// whole.
taken_piece piece_of_child(const data_type& type, const taken_piece& piece, std::size_t index) {
  const column& child = piece.of->children()[index];
  taken_piece result{&child, child.offset(), child.length()};
  if (const auto known = rows_of_children(type, piece.first, piece.rows)) {
    result.first += piece.rows == 0 ? 0 : known->first;
    result.rows = piece.rows == 0 ? 0 : known->count;
  }
  return result;
}

std::vector<taken_node> children_of(const data_type& type, const short_list<taken_piece, 1>& pieces,
                                    bool owns_bytes) {
  std::vector<taken_node> nodes;
  const auto fields = type.children();
  for (std::size_t i = type.mapping() == row_mapping::run_ends ? run_values : 0; i < fields.size(); ++i) {
    taken_node& child = nodes.emplace_back();
    child.type = &fields[i].type;
    for (const taken_piece& piece : pieces) {
      child.pieces.push_back(piece_of_child(type, piece, i));
    }
    child.owns_bytes = owns_bytes;
    child.children = children_of(*child.type, child.pieces, owns_bytes);
  }
  return nodes;
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
  taken_node node;
  node.type = &pieces.front().type();
  for (const column& piece : pieces) {
    node.pieces.push_back({&piece, piece.offset(), piece.length()});
  }
  node.length = rows->count;
  node.rows = std::move(rows);
  node.owns_bytes = owns_bytes;
  node.children = children_of(*node.type, node.pieces, owns_bytes);
  return node;
}

column column_of(const std::shared_ptr<context>& ctx, const taken_node& node) {
  const data_type& type = *node.type;
  if (node.length == 0) {
    return column::empty(ctx, type);
  }
  column::parts parts;
  parts.type = type;
  parts.length = node.length;
  for (const buffer& buffer : node.buffers) {
    parts.buffers.push_back(buffer);
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

namespace {

/// The pieces of columns. Every column has the same number of pieces, of the same lengths.
using pieces_of_columns = std::vector<std::vector<column>>;

bool share_dictionaries(std::span<const column* const> pieces) {
  const column& first = *pieces.front();
  if (first.dictionary() != nullptr && !std::ranges::all_of(pieces, [&](const column* column) {
        return column->dictionary() == first.dictionary() ||
               same_memory(*column->dictionary(), *first.dictionary());
      })) {
    return false;
  }
  for (std::size_t i = 0; i < first.children().size(); ++i) {
    std::vector<const column*> children;
    std::ranges::transform(pieces, std::back_inserter(children),
                           [&](const column* column) { return &column->children()[i]; });
    if (!share_dictionaries(children)) {
      return false;
    }
  }
  return true;
}

/// The same pieces with one dictionary, if they have several: `column_of` takes that of the first piece.
std::vector<column> with_one_dictionary(std::vector<column> pieces) {
  if (pieces.size() == 1) {
    return pieces;
  }
  std::vector<const column*> all;
  for (const column& piece : pieces) {
    if (piece.length() != 0) {
      all.push_back(&piece);
    }
  }
  if (all.empty()) {
    return pieces;
  }
  if (all.size() == 1 || share_dictionaries(all)) {
    if (pieces.front().length() == 0) { // it may have a dictionary of its own
      pieces.front() = all.front()->slice(0, 0);
    }
    return pieces;
  }
  const std::vector<column> whole = combine_chunks(pieces);
  if (whole.size() != 1) {
    throw error(errc::overflow, concat("taking rows of a column of ", pieces.front().type().name(),
                                       ": its indices can't count the values of all dictionaries"));
  }
  std::int64_t first = 0;
  for (column& column : pieces) {
    column = whole.front().slice(first, column.length());
    first += column.length();
  }
  return pieces;
}

/// Adds the memory of a column whose rows are copied. Dictionaries are only shared, and so are the bytes
/// behind views unless the result owns its bytes.
void append_sources(const column& of, bool owns_bytes, storage_reads& to) {
  const auto buffers = of.buffers();
  for (const buffer& buffer : owns_bytes ? buffers : buffers.first(of.type().buffer_count())) {
    to.add(buffer);
  }
  for (const column& child : of.children()) {
    append_sources(child, owns_bytes, to);
  }
}

/// @throws error overflow if the values of the rows can't be counted by the types
batch take_whole(const std::shared_ptr<context>& ctx, const pieces_of_columns& columns,
                 const selected_rows& rows, bool owns_bytes = false) {
  const auto shared = std::make_shared<const selected_rows>(rows);
  std::vector<taken_node> nodes;
  nodes.reserve(columns.size());
  for (const std::vector<column>& pieces : columns) {
    nodes.push_back(node_of(pieces, shared, owns_bytes));
  }
  storage_reads sources(ctx->work_stream());
  for (const std::vector<column>& pieces : columns) {
    for (const column& piece : pieces) {
      append_sources(piece, owns_bytes, sources);
    }
  }
  use_token token(ctx->work_stream(), sources.uses()); // keeps the addresses valid
  std::vector<taken_node*> level;
  std::ranges::transform(nodes, std::back_inserter(level), [](taken_node& node) { return &node; });
  while (!level.empty()) {
    take_level current(ctx);
    for (taken_node* const node : level) {
      current.add(*node);
    }
    level = current.run();
  }
  token.finish();
  batch batch{rows.count, {}};
  batch.columns.reserve(nodes.size());
  for (const taken_node& node : nodes) {
    batch.columns.push_back(column_of(ctx, node));
  }
  return batch;
}

/// Appends one batch, or two halves if it is too large.
void append_taken(const std::shared_ptr<context>& ctx, const pieces_of_columns& columns,
                  const selected_rows& rows, std::vector<batch>& made) {
  try {
    made.push_back(take_whole(ctx, columns, rows));
    return;
  } catch (const error& why) {
    if (why.code() != errc::overflow || rows.count < 2) {
      throw;
    }
  }
  const std::int64_t half = rows.count / 2;
  append_taken(ctx, columns, rows.slice(0, half), made);
  append_taken(ctx, columns, rows.slice(half, rows.count - half), made);
}

} // namespace

std::vector<std::int64_t> rows_of_pieces(const table& source) {
  std::vector<std::int64_t> values;
  std::ranges::transform(source.batches(), std::back_inserter(values), &batch::rows);
  return values;
}

std::vector<std::int64_t> rows_of_pieces(std::span<const column> source) {
  std::vector<std::int64_t> values;
  std::ranges::transform(source, std::back_inserter(values), &column::length);
  return values;
}

std::vector<column> take(std::span<const column> source, const selected_rows& rows) {
  const std::shared_ptr<context>& ctx = source.front().ctx();
  std::vector<batch> batches;
  append_taken(ctx, {with_one_dictionary({source.begin(), source.end()})}, rows, batches);
  std::vector<column> columns;
  columns.reserve(batches.size());
  for (batch& batch : batches) {
    columns.push_back(std::move(batch.columns.front()));
  }
  return columns;
}

table take(const table& source, const selected_rows& rows) {
  pieces_of_columns columns;
  columns.reserve(source.column_count());
  for (std::size_t i = 0; i < source.column_count(); ++i) {
    std::vector<column> pieces = source.pieces(i);
    if (pieces.empty()) {
      pieces.push_back(column::empty(source.ctx(), source.fields().fields[i].type));
    }
    columns.push_back(with_one_dictionary(std::move(pieces)));
  }
  schema fields = source.fields();
  for (field& field : fields.fields) {
    field.nullable = field.nullable || rows.nullable;
  }
  std::vector<batch> batches;
  append_taken(source.ctx(), columns, rows, batches);
  return table::make(source.ctx(), std::move(fields), std::move(batches));
}

std::vector<column> gather(std::span<const column> source) {
  const std::shared_ptr<context>& ctx = source.front().ctx();
  pieces_of_columns columns;
  columns.reserve(source.size());
  for (const column& column : source) {
    columns.push_back({column});
  }
  return take_whole(ctx, columns, all_rows(ctx, source.front().length()), true).columns;
}

table take(const table& source, std::span<const column> indices) {
  constexpr std::int64_t few_rows =
      1 << 16; // a device gathers so few rows sooner than the host queues the kernels
  queued_rows queued = queue_rows(source.ctx(), rows_of_pieces(source), indices);
  const bool has_nulls = std::ranges::any_of(indices, [](const column& column) {
    return column.validity().present() && column.known_null_count() != 0;
  });
  if (has_nulls || queued.rows.count > few_rows) {
    queued.rows.nullable = check_rows(queued, indices);
    return take(source, queued.rows);
  }
  table table = take(source, queued.rows);
  check_rows(queued, indices);
  return table;
}

namespace {

/// The pieces of a mask, of which parts are taken.
table table_of_mask(const std::shared_ptr<context>& ctx, std::span<const column> mask) {
  std::vector<batch> batches;
  for (const column& piece : mask) {
    batches.push_back({piece.length(), {piece}});
  }
  return table::make(ctx, {{{"mask", mask.front().type(), true, {}}}, {}}, std::move(batches));
}

} // namespace

table filter(const table& source, std::span<const column> mask) {
  const std::shared_ptr<context>& ctx = source.ctx();
  try {
    return take(source, rows_of_mask(ctx, rows_of_pieces(source), mask));
  } catch (const error& why) {
    if (why.code() != errc::overflow || source.batches().size() < 2) {
      throw;
    }
  }
  const table whole_mask = table_of_mask(ctx, mask);
  std::vector<batch> kept;
  std::int64_t first = 0;
  for (const batch& each : source.batches()) {
    const table alone = table::make(ctx, source.fields(), {each});
    const std::vector<column> part = whole_mask.slice(first, each.rows).pieces(0);
    if (!part.empty()) {
      const table rows = take(alone, rows_of_mask(ctx, rows_of_pieces(alone), part));
      kept.insert(kept.end(), rows.batches().begin(), rows.batches().end());
    }
    first += each.rows;
  }
  return table::make(ctx, source.fields(), std::move(kept));
}

namespace {

constexpr std::int64_t most_rows = std::int64_t{1} << 62;
constexpr std::int64_t most_short_rows = std::int64_t{1} << 32;

void require_batches(std::int64_t count, const lane_batches& batches) {
  if (count < 0 || count > most_rows) {
    throw error(errc::out_of_range, concat("a permutation of ", count, " rows: expected 0 to 2^62"));
  }
  if (batches.batch_rows < 1 || batches.window_batches < 1 || batches.count < 0 || batches.first < 0 ||
      batches.step < 1 || batches.round < 0) {
    throw error(errc::invalid_argument,
                concat(batches.count, " rows from batch ", batches.first, " on in steps of ", batches.step,
                       ", with ", batches.batch_rows, " rows a batch and ", batches.window_batches,
                       " batches a window: batches and windows have rows"));
  }
  if (batches.lanes < 1 || batches.lane_step < 1 || batches.lanes % batches.lane_step != 0 ||
      (batches.lane_step > 1 && batches.step % batches.lane_step != 0)) {
    throw error(errc::invalid_argument,
                concat("every batch of ", batches.step, " from every lane of ", batches.lane_step, " of ",
                       batches.lanes, ": these lanes don't have all of these batches"));
  }
  const std::int64_t window_rows =
      checked_mul(batches.window_batches, batches.batch_rows, "rows of a window");
  if (batches.count > count) {
    throw error(errc::out_of_range, concat(batches.count, " rows of ", count));
  }
  for (std::int64_t turn = 0, left = batches.count; left > 0; ++turn) {
    const std::int64_t batch =
        checked_add(batches.first, checked_mul(turn, batches.step, "batches"), "batches");
    const std::int64_t rows = std::min(left, batches.batch_rows);
    const std::int64_t windows =
        checked_add(batch / batches.lanes / batches.window_batches, std::int64_t{1}, "windows");
    static_cast<void>(
        checked_mul(checked_mul(windows, batches.lanes, "windows"), window_rows, "rows of windows"));
    const batch_place at = place_of(batches, turn);
    if (at.first_row + at.number + rows > count) {
      throw error(errc::out_of_range,
                  concat("batch ", batch, " ends at row ", at.first_row + at.number + rows, " of a table of ",
                         count, " rows"));
    }
    left -= rows;
  }
}

/// Numbers that a thread makes at once, and fewer than other threads are started for.
constexpr std::int64_t part_numbers = 1 << 15;
constexpr std::int64_t least_shared_numbers = 1 << 17;

/// Makes the numbers of whole batches in several threads: the kernels of the host run on the thread that calls
/// them.
void permute_on_host(const context& ctx, const permute_work& all) {
  const std::int64_t batch_rows = all.batches.batch_rows;
  const std::int64_t batches = std::max<std::int64_t>(part_numbers / batch_rows, 1); // of a part
  const std::int64_t rows = batches * batch_rows;
  thread_pool threads;
  threads.run(static_cast<std::size_t>((all.batches.count + rows - 1) / rows),
              [&](std::size_t, std::size_t number) {
                const auto before = static_cast<std::int64_t>(number);
                permute_work part = all;
                part.batches.first += before * batches * all.batches.step;
                part.batches.count = std::min(rows, all.batches.count - before * rows);
                part.target = static_cast<std::byte*>(all.target) + before * rows * all.width;
                ctx.kernels().permute_rows(ctx.work_stream().native_handle(), part);
              });
}

} // namespace

column permute_rows(const std::shared_ptr<context>& ctx, std::int64_t count, std::uint64_t key,
                    const lane_batches& batches) {
  require_argument(ctx, "ctx");
  require_batches(count, batches);
  const data_type type(count <= most_short_rows ? type_id::uint32 : type_id::int64);
  if (batches.count == 0) {
    return column::empty(ctx, type);
  }
  const stream_ref work = ctx->work_stream();
  const std::size_t bytes = checked_mul(static_cast<std::size_t>(batches.count),
                                        static_cast<std::size_t>(type.byte_width()), "bytes of numbers");
  const buffer values = buffer::allocate(ctx, bytes, work, "permute");
  const std::int64_t of_window = std::min(count, batches.window_batches * batches.batch_rows);
  use_token token(work, {writes(values)});
  const permute_work all{.order = make_permutation(static_cast<std::uint64_t>(of_window), key),
                         .batches = batches,
                         .rows = count,
                         .width = type.byte_width(),
                         .target = token.span<std::byte>(values).data()};
  if (ctx->on_host() && batches.count >= least_shared_numbers) {
    permute_on_host(*ctx, all);
  } else {
    ctx->kernels().permute_rows(work.native_handle(), all);
  }
  token.finish();
  return column::make(ctx, {type, batches.count, 0, 0, {{}, values}, {}});
}

table take_permuted(const table& source, std::uint64_t key, const lane_batches& batches) {
  const std::shared_ptr<context>& ctx = source.ctx();
  const column rows = permute_rows(ctx, source.rows(), key, batches);
  // No check is waited for: every number of a permutation is a row.
  return take(source, queue_rows(ctx, rows_of_pieces(source), std::span(&rows, 1)).rows);
}

} // namespace saeta
