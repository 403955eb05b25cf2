#include "saeta/ipc/reader.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/interop/arrow/import.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/io/source.hpp"
#include "saeta/ipc/read/host_columns.hpp"
#include "saeta/ipc/read/whole_read.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace saeta::ipc {
namespace {

bool is_in(std::span<const std::byte> view, const host_array& of) {
  const auto inside = [&](std::span<const std::byte> bytes) {
    return detail::contains(view, bytes.data(), bytes.size());
  };
  return std::ranges::all_of(of.buffers, inside) &&
         std::ranges::all_of(of.children, [&](const host_array& child) { return is_in(view, child); }) &&
         (of.dictionary == nullptr || is_in(view, *of.dictionary));
}

void require_view(std::span<const std::byte> view, const host_array& of, const std::string& column) {
  if (!is_in(view, of) || !aligned(of)) {
    throw error(
        errc::exchange,
        concat("column '", column, "' can't be a view of the source: ",
               view.empty()
                   ? "it is not in memory"
                   : "its body is compressed, misaligned, in foreign byte order or a dictionary in parts"));
  }
}

std::shared_ptr<const schema_index> select(const schema& source, const std::vector<int>& numbers) {
  schema chosen{{}, source.metadata};
  chosen.fields.reserve(numbers.size());
  for (const int number : numbers) {
    chosen.fields.push_back(source.fields[static_cast<std::size_t>(number)]);
  }
  return std::make_shared<const schema_index>(std::move(chosen));
}

} // namespace

struct SAETA_LOCAL reader::impl {
  impl(detail::source bytes, read_options chosen);

  std::optional<batch> next(const std::shared_ptr<context>& ctx);
  std::optional<batch> read_next(const std::shared_ptr<context>& ctx);
  batch place(const detail::host_target& to, const detail::source_message& message, bool views);
  std::uint64_t fetch_ahead(const std::shared_ptr<context>& ctx);
  bool take_bodies(const std::shared_ptr<context>& ctx);
  void begin();
  void describe();
  void choose(std::vector<std::string> columns);
  table read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook);
  [[nodiscard]] detail::read_request left_to_read() const;
  [[nodiscard]] bool can_be_planned() const;
  [[nodiscard]] bool fetches_few_columns() const;
  [[nodiscard]] bool copied_by_plan(const context& ctx) const;
  [[nodiscard]] std::shared_ptr<const detail::planned_source> plan(const context& ctx) const;
  void restart(std::pair<std::int64_t, std::int64_t> batches);
  void drop() noexcept;
  std::unique_ptr<scan> scan_windows(const std::shared_ptr<context>& ctx, const scan_options& chosen) const;
  std::optional<table> read_at_once(const std::shared_ptr<context>& ctx, bool join,
                                    const progress_hook& hook);
  std::optional<std::vector<batch>> read_in_windows(const std::shared_ptr<context>& ctx,
                                                    const progress_hook& hook);
  [[nodiscard]] std::string place_name() const { return concat(from->name(), ": batch ", number); }

  detail::source from;
  read_options options;
  std::unique_ptr<detail::message_source> messages;
  container format = container::file;
  detail::projection projected;
  bool big_endian = false;
  std::shared_ptr<const schema_index> described; ///< all columns of the source
  std::shared_ptr<const schema_index> fields;    ///< of the batches in the source, after projection
  std::shared_ptr<const schema_index> shown; ///< of the imported columns: `fields` if none becomes symbols
  progress so_far;
  bool ended = false;          ///< all batches were read at once
  std::int64_t number = 0;     ///< number in the source of the batch that is read next
  std::optional<error> broken; ///< what is wrong with the source from the next batch on

  detail::host_dictionaries dictionaries;
  // The cache keeps dictionaries alive, and with them perhaps the body of a batch. It is cleared when a
  // dictionary changes.
  dictionary_cache uploaded;
  std::shared_ptr<context> uploaded_to;
};

reader::impl::impl(detail::source bytes, read_options chosen)
    : from(std::move(bytes)), options(std::move(chosen)) {
  begin();
  describe();
  format = messages->format();
  so_far.total_batches = messages->batch_count();
  number = options.batches ? options.batches->first : 0;
}

/// Goes to the first message of the source.
void reader::impl::begin() {
  messages = std::make_unique<detail::message_source>(from, options.batches);
  if (described != nullptr) {
    messages->project(described, projected.decoded);
  }
  dictionaries = {};
  uploaded = {};
}

/// Finds the columns of the source and of the result.
void reader::impl::describe() {
  try {
    detail::source_schema schema = detail::read_schema(messages->format(), messages->front());
    projected = detail::project(schema.fields, options.columns, from->name());
    for (const int requested : projected.requested) {
      schema.require_supported(static_cast<std::size_t>(requested));
    }
    described = std::make_shared<const schema_index>(std::move(schema.fields));
  } catch (const error& failure) {
    if (failure.code() == errc::column_name) {
      throw;
    }
    rethrow(failure, from->name());
  }
  fields = options.columns ? select(described->fields(), projected.requested) : described;
  big_endian = detail::schema_table(messages->format(), messages->front())
                   .scalar<std::int16_t>(detail::schema_endianness, 0) != 0;
  messages->project(described, projected.decoded);
  const bool symbols = std::ranges::any_of(fields->fields().fields, becomes_symbols);
  shown = symbols ? std::make_shared<const schema_index>(resolve_symbols(fields->fields())) : fields;
}

void reader::impl::choose(std::vector<std::string> columns) {
  options.columns = std::move(columns);
  describe();
}

std::uint64_t reader::impl::fetch_ahead(const std::shared_ptr<context>& ctx) {
  if (broken || ended || messages == nullptr) {
    return 0;
  }
  take_bodies(ctx);
  return messages->fetch_ahead();
}

/// Returns whether batches are views of the bodies.
bool reader::impl::take_bodies(const std::shared_ptr<context>& ctx) {
  const bool views = ctx->on_host() && options.copy != copy_policy::always;
  messages->take_bodies(views ? detail::bodies::viewed : detail::bodies::copied, ctx);
  return views;
}

std::optional<batch> reader::impl::next(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  if (broken) {
    throw *broken;
  }
  if (ended) {
    return std::nullopt;
  }
  try {
    return read_next(ctx);
  } catch (const error& failure) {
    const errc code = failure.code();
    if (code == errc::format || code == errc::unsupported || code == errc::io) {
      broken = failure;
    }
    throw;
  }
}

/// Accepts a message only after its batch was made, so that the next call reads the same message again if the
/// batch failed for another reason than the source, such as a budget without room.
std::optional<batch> reader::impl::read_next(const std::shared_ptr<context>& ctx) {
  const bool views = take_bodies(ctx);
  const detail::host_target to{ctx, big_endian, !views};
  if (uploaded_to != ctx) {
    uploaded = {};
    uploaded_to = ctx;
  }
  try {
    while (const auto message = messages->next()) {
      if (message->layout.dictionary) {
        dictionaries.add(to, messages->columns(message->layout.version), *message);
        messages->accept();
        uploaded = {};
        if (format == container::file && dictionaries.replaced() != 0) {
          throw error(errc::format, "a dictionary occurs twice, which is not allowed in a file");
        }
        continue;
      }
      batch placed = place(to, *message, views);
      messages->accept();
      ++number;
      ++so_far.batches;
      so_far.rows = checked_add(so_far.rows, placed.rows, "rows of the source");
      so_far.bytes = messages->body_bytes();
      return placed;
    }
  } catch (const error& failure) {
    rethrow_input(failure, place_name());
  }
  messages->close_range();
  return std::nullopt;
}

batch reader::impl::place(const detail::host_target& to, const detail::source_message& message, bool views) {
  host_batch read =
      detail::host_columns(to, messages->columns(message.layout.version), message, dictionaries);
  if (options.columns) {
    std::vector<host_array> ordered;
    ordered.reserve(projected.order.size());
    for (const int at : projected.order) {
      ordered.push_back(read.arrays[static_cast<std::size_t>(at)]);
    }
    read.arrays = std::move(ordered);
  }
  const std::vector<field>& columns = fields->fields().fields;
  if (options.copy == copy_policy::never) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      require_view(from->view(), read.arrays[i], columns[i].name);
    }
  }
  import_options importing;
  importing.copy = views && message.temporary ? copy_policy::always : options.copy;
  importing.check = options.check;
  importing.scope = options.check_texts ? check_scope::every_text : check_scope::every_row;
  importing.upload.tag = "read_ipc";
  return place_view(to.ctx, std::move(read), columns, uploaded, importing).columns;
}

/// Whether a plan may take the source. Symbols are numbered batch by batch. A plan reads single offsets first:
/// with an object that reads ranges, each of them would be a request, unless what is around them is fetched
/// ahead.
bool reader::impl::can_be_planned() const {
  const bool fetched = from->fetches_ahead() && format == container::file;
  return (from->near_by() || fetched) && fields == shown && !ended && options.copy != copy_policy::never;
}

/// Whether some columns are read of a source that is fetched. A batch may have few bytes of them, and a block
/// of memory for each batch takes the system longer to give than filling it takes.
bool reader::impl::fetches_few_columns() const {
  return !from->near_by() && projected.decoded.size() != described->fields().fields.size();
}

bool reader::impl::copied_by_plan(const context& ctx) const {
  return can_be_planned() &&
         (options.copy == copy_policy::always || !ctx.on_host() || options.combine_chunks == true ||
          messages->is_packed() || fetches_few_columns());
}

/// Returns a request for the batches that are not read yet.
detail::read_request reader::impl::left_to_read() const {
  constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();
  const std::int64_t count = so_far.total_batches;
  const std::int64_t first = options.batches ? options.batches->first : 0;
  const std::int64_t last = count >= 0 ? first + count : options.batches ? options.batches->second : unknown;
  return {.from = from,
          .format = messages->format(),
          .front = messages->front(),
          .described = described,
          .projected = &projected,
          .fields = fields,
          .batches = {number, last},
          .check = options.check,
          .texts = options.check_texts};
}

/// Returns null if batches are views, or a plan can't take the source.
std::shared_ptr<const detail::planned_source> reader::impl::plan(const context& ctx) const {
  if (!copied_by_plan(ctx)) {
    return nullptr;
  }
  const detail::read_request request = left_to_read();
  return detail::planned_source::find(std::span(&request, 1));
}

/// Reads all remaining batches with one plan. Returns nullopt if a plan can't take the source.
std::optional<table> reader::impl::read_at_once(const std::shared_ptr<context>& ctx, bool join,
                                                const progress_hook& hook) {
  const progress before = so_far;
  const auto since = [&](const progress& read) {
    progress sum = before;
    sum.batches += read.batches;
    sum.rows = checked_add(sum.rows, read.rows, "rows of the source");
    sum.bytes += read.bytes;
    sum.total_rows = read.total_rows < 0 ? -1 : before.rows + read.total_rows;
    return sum;
  };
  if (!from->near_by()) { // a plan of all batches would keep all of their bytes until the last is fetched
    return std::nullopt;
  }
  const progress_hook told = [&](const progress& read) { hook(since(read)); };
  const auto planned = plan(*ctx);
  auto result = planned == nullptr ? std::nullopt
                                   : detail::read_whole(ctx, *planned, planned->everything().spans, join,
                                                        hook ? told : hook);
  if (!result) {
    return std::nullopt;
  }
  so_far = since({result->batches, -1, result->rows.rows(), result->body_bytes});
  number += result->batches;
  ended = true;
  return std::move(result->rows);
}

/// Reads few columns of a source that is fetched. Returns nullopt if there are others, or if the budget may be
/// too small for whole batches in windows.
std::optional<std::vector<batch>> reader::impl::read_in_windows(const std::shared_ptr<context>& ctx,
                                                                const progress_hook& hook) {
  const scan_options windows;
  const std::uint64_t most_bytes = (windows.windows_ahead + 2) * windows.window_bytes;
  if (!ctx->on_host() || !fetches_few_columns() || so_far.batches != 0 ||
      ctx->memory_budget()->statistics().remaining < most_bytes) {
    return std::nullopt;
  }
  const auto planned = plan(*ctx);
  if (planned == nullptr || !std::ranges::all_of(planned->batches(), [&](const auto& each) {
        return each.body_bytes <= windows.window_bytes;
      })) {
    return std::nullopt;
  }
  std::vector<batch> batches;
  progress read = so_far;
  const auto scanned = detail::scan_planned(ctx, planned, planned->everything(), windows);
  for (const detail::planned_message& each : planned->batches()) {
    const auto rows = scanned->next();
    if (!rows) {
      break;
    }
    read.bytes += each.body_bytes;
    read.rows = checked_add(read.rows, rows->rows(), "rows of the source");
    ++read.batches;
    if (rows->batches().empty()) { // the batch stays, as it does where batches are read one by one
      batch& none = batches.emplace_back();
      for (const field& of : shown->fields().fields) {
        none.columns.push_back(column::empty(ctx, of.type));
      }
    }
    batches.insert(batches.end(), rows->batches().begin(), rows->batches().end());
    if (hook) {
      hook(read);
    }
  }
  so_far = read;
  number += read.batches;
  ended = true;
  return batches;
}

std::unique_ptr<scan> reader::impl::scan_windows(const std::shared_ptr<context>& ctx,
                                                 const scan_options& chosen) const {
  require_argument(ctx, "ctx");
  const auto planned = plan(*ctx);
  return planned == nullptr ? nullptr : detail::scan_planned(ctx, planned, planned->everything(), chosen);
}

void reader::impl::restart(std::pair<std::int64_t, std::int64_t> batches) {
  drop();
  options.batches = batches;
  broken = std::nullopt;
  so_far = {};
  ended = false;
  number = batches.first;
  begin();
  so_far.total_batches = messages->batch_count();
}

void reader::impl::drop() noexcept {
  ended = true;
  uploaded = {};
  dictionaries = {};
  messages = nullptr;
}

table reader::impl::read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook) {
  require_argument(ctx, "ctx");
  if (broken) {
    throw *broken;
  }
  const bool join = options.combine_chunks.value_or(!ctx->on_host());
  std::vector<batch> batches;
  try {
    if (auto whole = read_at_once(ctx, join, hook)) {
      return std::move(*whole);
    }
    if (auto read = read_in_windows(ctx, hook)) {
      batches = *std::move(read);
    }
  } catch (const error& failure) {
    if (failure.code() == errc::format) {
      broken = failure;
    }
    throw;
  }
  while (auto read = next(ctx)) {
    batches.push_back(std::move(*read));
    if (hook) {
      hook(so_far);
    }
  }
  table rows = table::make_sharing(ctx, shown, std::move(batches));
  if (join && options.copy == copy_policy::never && rows.batches().size() > 1) {
    throw error(errc::exchange,
                concat(from->name(), ": ", rows.batches().size(), " batches can't be joined without a copy"));
  }
  return join ? combine_chunks(rows) : rows;
}

reader::reader(std::unique_ptr<impl> state) : impl_(std::move(state)) {}
reader::~reader() = default;

std::unique_ptr<reader> reader::open(const std::filesystem::path& file, read_options options,
                                     bool keep_open) {
  auto state = std::make_unique<impl>(detail::open_source(file, keep_open), std::move(options));
  return std::unique_ptr<reader>(new reader(std::move(state)));
}

std::unique_ptr<reader> reader::open(std::span<const std::byte> bytes, std::shared_ptr<void> keepalive,
                                     read_options options) {
  auto from = detail::source_of(bytes, std::move(keepalive));
  return std::unique_ptr<reader>(new reader(std::make_unique<impl>(std::move(from), std::move(options))));
}

std::unique_ptr<reader> reader::open(std::string name, std::uint64_t size, source_reader read,
                                     read_options options, source_fetcher fetch) {
  auto from = detail::source_of(std::move(name), size, std::move(read), std::move(fetch));
  return std::unique_ptr<reader>(new reader(std::make_unique<impl>(std::move(from), std::move(options))));
}

std::unique_ptr<reader> reader::open(std::string name,
                                     std::function<std::size_t(std::span<std::byte>)> read_some,
                                     read_options options) {
  auto from = detail::live_source_of(std::move(name), std::move(read_some));
  return std::unique_ptr<reader>(new reader(std::make_unique<impl>(std::move(from), std::move(options))));
}

container reader::format() const noexcept { return impl_->format; }
bool reader::live() const noexcept { return impl_->from->live(); }
const schema& reader::fields() const noexcept { return impl_->shown->fields(); }
void reader::choose(std::vector<std::string> columns) { impl_->choose(std::move(columns)); }
std::int64_t reader::batch_count() const noexcept { return impl_->so_far.total_batches; }
std::optional<batch> reader::next(const std::shared_ptr<context>& ctx) { return impl_->next(ctx); }

table reader::read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook) {
  return impl_->read_all(ctx, hook);
}

std::unique_ptr<scan> reader::scan_windows(const std::shared_ptr<context>& ctx,
                                           const scan_options& options) const {
  return impl_->scan_windows(ctx, options);
}

const std::string& reader::name() const noexcept { return impl_->from->name(); }
const std::shared_ptr<const schema_index>& reader::shared_fields() const noexcept { return impl_->shown; }
const read_options& reader::options() const noexcept { return impl_->options; }
const progress& reader::so_far() const noexcept { return impl_->so_far; }
void reader::drop() noexcept { impl_->drop(); }
void reader::restart(std::pair<std::int64_t, std::int64_t> batches) { impl_->restart(batches); }
bool reader::near_by() const noexcept { return impl_->from->near_by(); }
std::uint64_t reader::fetch_ahead(const std::shared_ptr<context>& ctx) { return impl_->fetch_ahead(ctx); }
bool reader::copied_by_plan(const context& ctx) const { return impl_->copied_by_plan(ctx); }

std::optional<detail::read_request> reader::request() const {
  return impl_->can_be_planned() ? std::optional(impl_->left_to_read()) : std::nullopt;
}

std::int64_t reader::count_batches() const {
  if (live()) {
    throw error(errc::unsupported,
                concat(name(), ": the number of batches of a stream that is still being sent is not known"));
  }
  if (format() == container::file) {
    return batch_count();
  }
  detail::message_source walked(impl_->from, std::nullopt);
  try {
    while (walked.next()) {
      walked.accept();
    }
  } catch (const error& failure) {
    rethrow(failure, name());
  }
  return walked.next_batch();
}

} // namespace saeta::ipc
