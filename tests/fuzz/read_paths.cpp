#include "fuzz/read_paths.hpp"

#include "fuzz/harness.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/memory/context.hpp"
#include "support/tables.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace saeta::fuzz {
namespace {

using ipc::read_options;
using ipc::reader;
using context_ptr = std::shared_ptr<context>;
using bytes_view = std::span<const std::byte>;

struct read_path {
  std::string name;
  attempt result;
  bool keeps_batches = true; ///< the table has the batches of the source, including those without rows
};

constexpr std::uint64_t large_window = 1 << 20; // several batches
constexpr std::uint64_t small_window = 128;     // parts of a batch
constexpr std::int64_t rows_of_scan = 50;
constexpr std::int64_t rows_of_part = 13;

read_options options_of(copy_policy copy, bool joined = false) {
  read_options made;
  made.copy = copy;
  made.combine_chunks = joined;
  return made;
}

std::vector<std::string> names_of(const schema& of) {
  std::vector<std::string> names;
  for (const field& each : of.fields) {
    names.push_back(each.name);
  }
  return names;
}

table one_by_one(const context_ptr& ctx, reader& from) {
  std::vector<batch> batches;
  while (auto read = from.next(ctx)) {
    batches.push_back(std::move(*read));
  }
  return table::make(ctx, from.fields(), std::move(batches));
}

/// @param rows  rows of each table of the scan; 0: the batches of the source
table scanned(const context_ptr& ctx, reader& from, std::uint64_t window_bytes, std::int64_t rows) {
  const auto windows = from.scan_windows(ctx, {.window_bytes = window_bytes, .batch_rows = rows});
  if (windows == nullptr) {
    return one_by_one(ctx, from);
  }
  std::vector<batch> batches;
  while (const auto next = windows->next()) {
    batches.insert(batches.end(), next->batches().begin(), next->batches().end());
  }
  return table::make(ctx, from.fields(), std::move(batches));
}

/// Reads each batch in parts of a few rows, so that its compressed buffers are decoded in parts.
table by_parts(const context_ptr& ctx, bytes_view bytes) {
  std::vector<std::unique_ptr<reader>> readers;
  readers.push_back(reader::open(bytes, nullptr, options_of(copy_policy::always)));
  ipc::data_set of(std::move(readers));
  if (!of.planned() || !of.undivided().empty()) {
    return of.read_all(ctx);
  }
  std::vector<std::vector<ipc::batch_span>> windows;
  for (std::size_t i = 0; i < of.sizes().size(); ++i) {
    const std::int64_t rows = of.sizes()[i].rows;
    for (std::int64_t first = 0; first < rows; first += rows_of_part) {
      windows.push_back({{.batch = i, .first_row = first, .rows = std::min(rows_of_part, rows - first)}});
    }
  }
  if (windows.empty()) {
    return of.read_all(ctx);
  }
  std::vector<batch> batches;
  const std::unique_ptr<ipc::scan> parts = of.scan_spans(ctx, windows, 1);
  while (const auto next = parts->next()) {
    batches.insert(batches.end(), next->batches().begin(), next->batches().end());
  }
  return table::make(ctx, of.fields(), std::move(batches));
}

/// Reads all columns, requested in reverse order, and returns them in the order of the source.
table by_columns(const context_ptr& ctx, bytes_view bytes, copy_policy copy) {
  read_options options = options_of(copy);
  std::vector<std::string> names = names_of(reader::open(bytes, nullptr)->fields());
  std::vector<std::size_t> order(names.size());
  if (std::set(names.begin(), names.end()).size() == names.size()) { // only unique names can be requested
    std::ranges::reverse(names);
    options.columns = names;
  }
  const table read = reader::open(bytes, nullptr, options)->read_all(ctx);
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = options.columns ? order.size() - 1 - i : i;
  }
  return read.select(order);
}

std::unique_ptr<reader> open_live(bytes_view bytes) {
  const auto left = std::make_shared<bytes_view>(bytes);
  return reader::open("live", [left](std::span<std::byte> target) {
    const std::size_t taken = std::min(target.size(), left->size());
    std::ranges::copy(left->first(taken), target.begin());
    *left = left->subspan(taken);
    return taken;
  });
}

std::unique_ptr<reader> open_object(bytes_view bytes) {
  return reader::open("object", bytes.size(), [bytes](std::uint64_t at, std::span<std::byte> target) {
    std::ranges::copy(bytes.subspan(static_cast<std::size_t>(at), target.size()), target.begin());
  });
}

bool is_file(bytes_view bytes) {
  constexpr std::string_view magic = "ARROW1";
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// The read paths that check every row of a child: they read batch by batch.
std::vector<read_path> read_every_row(const context_ptr& ctx, bytes_view bytes) {
  std::vector<read_path> made;
  const auto add = [&](const char* name, auto open) {
    made.push_back({name, try_to([&] { return one_by_one(ctx, *open()); })});
  };
  for (const auto copy : {copy_policy::when_needed, copy_policy::always}) {
    add(copy == copy_policy::always ? "copies one by one" : "views one by one",
        [&] { return reader::open(bytes, nullptr, options_of(copy)); });
  }
  add("object", [&] { return open_object(bytes); });
  if (!is_file(bytes)) {
    add("live stream", [&] { return open_live(bytes); });
  }
  return made;
}

/// The read paths that plan the copies of a whole source at once, if the source allows it.
std::vector<read_path> read_by_plan(const context_ptr& ctx, bytes_view bytes) {
  std::vector<read_path> made;
  const std::string where = to_string(ctx->device());
  const auto add = [&](std::string_view name, auto read) {
    made.push_back({concat(name, ", ", where), try_to(read)});
  };
  const auto add_other_batches = [&](std::string_view name, auto read) {
    add(name, read);
    made.back().keeps_batches = false;
  };
  const auto open = [&](bool joined = false) {
    return reader::open(bytes, nullptr, options_of(copy_policy::always, joined));
  };
  add("copies", [&] { return open()->read_all(ctx); });
  add_other_batches("joined", [&] { return open(true)->read_all(ctx); });
  if (!ctx->on_host()) {
    return made;
  }
  add_other_batches("scan", [&] { return scanned(ctx, *open(), large_window, 0); });
  if (made.front().result.made && has_few_rows(*made.front().result.made)) {
    add_other_batches("scan of rows", [&] { return scanned(ctx, *open(), small_window, rows_of_scan); });
    add_other_batches("parts of batches", [&] { return by_parts(ctx, bytes); });
  }
  add("copies of columns", [&] { return by_columns(ctx, bytes, copy_policy::always); });
  return made;
}

std::vector<read_path> read_views(const context_ptr& ctx, bytes_view bytes) {
  constexpr auto views = copy_policy::when_needed;
  return {{"views", try_to([&] { return reader::open(bytes, nullptr, options_of(views))->read_all(ctx); })},
          {"views of columns", try_to([&] { return by_columns(ctx, bytes, views); })}};
}

bool lacks_memory(const attempt& of) {
  return of.refused &&
         (of.refused->code() == errc::budget_exceeded || of.refused->code() == errc::out_of_memory);
}

bool contains(const error& of, std::string_view text) {
  return of.message().find(text) != std::string_view::npos;
}

/// Aborts if the first path accepts the source and the second one refuses it or returns other rows.
void require_taken(const read_path& first, const read_path& second) {
  const auto& [made, refused] = second.result;
  if (!first.result.made || lacks_memory(second.result)) {
    return;
  }
  require(made.has_value(), concat(first.name, ": a table; ", second.name, ": ", text_of(second.result)));
  require_same_rows(second.name, *made, *first.result.made);
  if (first.keeps_batches && second.keeps_batches) {
    require(std::ranges::equal(made->batches(), first.result.made->batches(), {}, &batch::rows, &batch::rows),
            concat(second.name, ": the batches differ"));
  }
}

/// Aborts unless all paths accept the source and return the same rows, or all refuse it.
void require_same(const std::vector<read_path>& all) {
  const read_path& first = all.front();
  for (const read_path& each : all) {
    require_taken(first, each);
    if (each.result.made) {
      require(first.result.made || lacks_memory(first.result),
              concat(each.name, ": a table; ", first.name, ": ", text_of(first.result)));
    } else {
      require_input_or_memory_error(*each.result.refused);
    }
  }
}

/// Aborts unless a planned copy may accept a source that the paths of read_every_row refuse: its metadata and
/// all copied rows must be valid, so that only rows that were not copied can be broken.
void require_good_reason(const context_ptr& ctx, bytes_view bytes, const table& made) {
  read_options options = options_of(copy_policy::when_needed);
  options.check = validation::structure;
  const attempt shape = try_to([&] { return one_by_one(ctx, *reader::open(bytes, nullptr, options)); });
  // Checks of structure read these values also for child rows that no parent refers to.
  const bool of_values = shape.refused && (contains(*shape.refused, "offsets of its first and last value") ||
                                           contains(*shape.refused, "run ends do not reach row"));
  require(shape.made || of_values || lacks_memory(shape),
          concat("copies: a table; the metadata alone: ", text_of(shape)));
  column_checker checker(ctx);
  for (const batch& each : made.batches()) {
    checker.check(each.columns, made.fields().fields);
  }
}

/// Compares a read of the last column alone with the same column of a read of all columns.
void require_same_column(const context_ptr& ctx, bytes_view bytes, copy_policy copy, const attempt& all) {
  if (!all.made) {
    return;
  }
  const table& whole = *all.made;
  const std::vector<std::string> names = names_of(whole.fields());
  if (names.empty() || std::ranges::count(names, names.back()) != 1) {
    return;
  }
  read_options options = options_of(copy);
  options.columns = {names.back()};
  const read_path one{copy == copy_policy::always ? "copy of one column" : "view of one column",
                      try_to([&] { return reader::open(bytes, nullptr, options)->read_all(ctx); })};
  const std::size_t last = names.size() - 1;
  require_taken({"all columns", {whole.select({&last, 1}), std::nullopt}}, one);
}

std::int64_t nulls_of(const table& of, std::size_t column) {
  std::int64_t sum = 0;
  for (const batch& each : of.batches()) {
    sum += each.columns[column].null_count();
  }
  return sum;
}

} // namespace

std::string text_of(const attempt& of) {
  return of.refused ? concat(name_of(of.refused->code()), ": ", of.refused->message()) : "a table";
}

void require_same_rows(const std::string& path, const table& seen, const table& expected) {
  require(seen.fields() == expected.fields(), concat(path, ": the schemas differ"));
  require(seen.rows() == expected.rows(),
          concat(path, ": ", seen.rows(), " rows, expected ", expected.rows()));
  if (!has_few_rows(seen) || !has_few_rows(expected)) {
    return;
  }
  for (std::size_t i = 0; i < expected.column_count(); ++i) {
    const std::string label = concat(path, ": column '", expected.fields().fields[i].name, "': ");
    require(support::cells(seen, i) == support::cells(expected, i), concat(label, "the values differ"));
    require(nulls_of(seen, i) == nulls_of(expected, i), concat(label, "the null counts differ"));
  }
}

attempt require_one_meaning(bytes_view bytes) {
  const context_ptr& host = host_context();
  const simulation& machine = simulated_device();
  attempt found;
  {
    const std::vector<read_path> strict = read_every_row(host, bytes);
    require_same(strict);
    std::vector<read_path> planned = read_by_plan(host, bytes);
    std::ranges::move(read_by_plan(machine.ctx, bytes), std::back_inserter(planned));
    require_same(planned);
    require_taken(strict.front(), planned.front());
    if (strict.front().result.refused && planned.front().result.made) {
      require_good_reason(host, bytes, *planned.front().result.made);
    }
    // If views are requested, a plan copies only the compressed buffers.
    const std::vector<read_path> views = read_views(host, bytes);
    require_same(views);
    require_taken(strict.front(), views.front());
    require_taken(views.front(), planned.front());
    require_same_column(host, bytes, copy_policy::when_needed, views.front().result);
    require_same_column(host, bytes, copy_policy::always, planned.front().result);
    found = strict.front().result;
  }
  require_clean(machine);
  return found;
}

} // namespace saeta::fuzz
