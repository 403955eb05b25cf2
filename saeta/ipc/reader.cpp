#include "saeta/ipc/reader.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/codec/bounded_pool.hpp"
#include "saeta/ipc/format/arrow_bridge.hpp"
#include "saeta/ipc/format/complete_dictionaries.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/format/schema_metadata.hpp"
#include "saeta/ipc/io/source.hpp"
#include "saeta/ipc/read/projection.hpp"
#include "saeta/ipc/read/whole_read.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/array_binary.h>
#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/config.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/config.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace saeta::ipc {
namespace {

using dictionary_list = std::vector<std::shared_ptr<arrow::ArrayData>>;

void append_dictionaries(const arrow::ArrayData& of, dictionary_list& found) {
  for (const auto& child : of.child_data) {
    append_dictionaries(*child, found);
  }
  if (of.dictionary != nullptr) {
    found.push_back(of.dictionary);
  }
}

/// The dictionaries of a batch, in the order of its columns. A nested dictionary is a part of the outer one.
dictionary_list dictionaries_of(const arrow::RecordBatch& source) {
  dictionary_list found;
  for (const auto& column : source.column_data()) {
    append_dictionaries(*column, found);
  }
  return found;
}

/// Every row of a column of type null is null, whatever the source says.
void count_null_arrays(arrow::ArrayData& data) {
  if (data.type->storage_id() == arrow::Type::NA) {
    data.null_count = data.length;
  }
  for (const auto& child : data.child_data) {
    count_null_arrays(*child);
  }
  if (data.dictionary != nullptr) {
    count_null_arrays(*data.dictionary);
  }
}

/// @param data  its offsets and views have been checked.
arrow::Status check_texts(const std::shared_ptr<arrow::ArrayData>& data) {
  if (data->length != 0) {
    switch (data->type->storage_id()) {
    case arrow::Type::STRING:
      ARROW_RETURN_NOT_OK(arrow::StringArray(data).ValidateUTF8());
      break;
    case arrow::Type::LARGE_STRING:
      ARROW_RETURN_NOT_OK(arrow::LargeStringArray(data).ValidateUTF8());
      break;
    case arrow::Type::STRING_VIEW:
      ARROW_RETURN_NOT_OK(arrow::StringViewArray(data).ValidateUTF8());
      break;
    default:
      break;
    }
  }
  for (const auto& child : data->child_data) {
    ARROW_RETURN_NOT_OK(check_texts(child));
  }
  return data->dictionary == nullptr ? arrow::Status::OK() : check_texts(data->dictionary);
}

void require_views(const arrow::ArrayData& data, std::span<const std::byte> view, const std::string& column) {
  if (data.length == 0) {
    return; // no buffer is read
  }
  for (const auto& part : data.buffers) {
    if (part != nullptr && !detail::contains(view, part->data(), static_cast<std::size_t>(part->size()))) {
      throw error(
          errc::exchange,
          concat("column '", column, "' can't be a view of the source: ",
                 view.empty()
                     ? "it is not in memory"
                     : "its body is compressed, misaligned, in foreign byte order or a dictionary in parts"));
    }
  }
  for (const auto& child : data.child_data) {
    require_views(*child, view, column);
  }
  if (data.dictionary != nullptr) {
    require_views(*data.dictionary, view, column);
  }
}

std::vector<std::string_view> names_of(const schema& source) {
  std::vector<std::string_view> names;
  names.reserve(source.fields.size());
  for (const field& each : source.fields) {
    names.emplace_back(each.name);
  }
  return names;
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

struct reader::impl {
  impl(detail::source bytes, read_options chosen);

  std::optional<batch> next(const std::shared_ptr<context>& ctx);
  std::optional<batch> decode_and_import(const std::shared_ptr<context>& ctx);
  void begin();
  void describe();
  void choose(std::vector<std::string> columns);
  void open_decoder();
  table read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook);
  [[nodiscard]] detail::read_request left_to_read() const;
  [[nodiscard]] bool can_be_planned() const;
  [[nodiscard]] bool copied_by_plan(const context& ctx) const;
  [[nodiscard]] std::shared_ptr<const detail::planned_source> plan(const context& ctx) const;
  void restart(std::pair<std::int64_t, std::int64_t> batches);
  void drop() noexcept;
  std::unique_ptr<scan> scan_windows(const std::shared_ptr<context>& ctx, const scan_options& chosen) const;
  std::optional<table> read_at_once(const std::shared_ptr<context>& ctx, bool join,
                                    const progress_hook& hook);
  bool decode();
  void renew_dictionaries(const std::shared_ptr<context>& ctx);
  [[nodiscard]] std::string place() const;

  detail::source from;
  read_options options;
  detail::bounded_pool::pointer pool;
  std::unique_ptr<detail::message_source> messages;
  container format = container::file;
  detail::projection projected;
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader>
      stream; ///< libarrow's decoder, opened when needed; it reads `messages`
  std::shared_ptr<const schema_index> described; ///< all columns of the source
  std::shared_ptr<const schema_index> fields;    ///< of the batches in the source, after projection
  std::shared_ptr<const schema_index> shown; ///< of the imported columns: `fields` if none becomes symbols
  progress so_far;
  bool views = false;      ///< columns of the next batch view the source
  bool ended = false;      ///< all batches were read at once
  std::int64_t number = 0; ///< number in the source of the batch that is read next

  std::shared_ptr<arrow::RecordBatch> decoded; ///< decoded, but not imported into a context yet
  std::optional<error> broken;                 ///< the error after which the decoder can't continue
  bool retry = false;                          ///< the decoder had no memory and gets the batch again
  bool reopen = false;                         ///< the decoder must start from the beginning
  // The cache keeps its dictionaries alive, and with them perhaps a decoded batch. It is cleared when a
  // dictionary changes.
  dictionary_cache uploaded;
  dictionary_list on_host;
  std::shared_ptr<context> uploaded_to;
};

reader::impl::impl(detail::source bytes, read_options chosen)
    : from(std::move(bytes)), options(std::move(chosen)), pool(detail::bounded_pool::make()) {
  begin();
  describe();
  format = messages->format();
  so_far.total_batches = messages->batch_count();
  number = options.batches ? options.batches->first : 0;
}

/// Goes to the first message of the source.
void reader::impl::begin() {
  stream = nullptr;
  messages = std::make_unique<detail::message_source>(from, options.batches);
}

/// Finds the columns of the source and of the result.
void reader::impl::describe() {
  try {
    detail::source_schema found = detail::read_schema(messages->format(), messages->front());
    projected = detail::project(names_of(found.fields), options.columns, from->name());
    for (const int requested : projected.requested) {
      found.require_supported(static_cast<std::size_t>(requested));
    }
    described = std::make_shared<const schema_index>(std::move(found.fields));
  } catch (const error& failure) {
    if (failure.code() == errc::column_name) {
      throw;
    }
    rethrow(failure, from->name());
  }
  fields = options.columns ? select(described->fields(), projected.requested) : described;
  const bool symbols = std::ranges::any_of(fields->fields().fields, becomes_symbols);
  shown = symbols ? std::make_shared<const schema_index>(resolve_symbols(fields->fields())) : fields;
}

void reader::impl::choose(std::vector<std::string> columns) {
  options.columns = std::move(columns);
  describe();
}

void reader::impl::open_decoder() {
  messages->project(described, projected.decoded);
  auto decoding = arrow::ipc::IpcReadOptions::Defaults();
  decoding.memory_pool = pool.get();
  decoding.included_fields = projected.decoded;
  decoding.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  auto complete = std::make_unique<detail::complete_dictionaries>(*messages);
  stream = take(arrow::ipc::RecordBatchStreamReader::Open(std::move(complete), decoding), from->name());
}

std::string reader::impl::place() const { return concat(from->name(), ": batch ", number); }

/// Reads the next batch into `decoded`; false at the end.
bool reader::impl::decode() {
  if (stream == nullptr) {
    open_decoder();
  }
  if (const auto status = stream->ReadNext(&decoded); !status.ok()) {
    if (status.IsOutOfMemory()) {
      retry = messages->repeat() || so_far.batches == 0;
      reopen = retry && so_far.batches == 0; // the decoder may have read only some dictionaries
    }
    raise(status, place());
  }
  messages->forget_read();
  if (decoded == nullptr) {
    messages->close_range();
    return false;
  }
  if (messages->format() == container::file && stream->stats().num_replaced_dictionaries > 0) {
    throw error(errc::format,
                concat(from->name(), ": a dictionary occurs twice, which is not allowed in a file"));
  }
  decoded = take(decoded->SelectColumns(projected.order), place());
  for (const auto& column : decoded->column_data()) {
    count_null_arrays(*column);
  }
  check(decoded->Validate(), place());
  for (const auto& column : decoded->column_data()) {
    detail::forget_null_counts(*column, !views);
  }
  if (options.copy == copy_policy::never) {
    for (int i = 0; i < decoded->num_columns(); ++i) {
      require_views(*decoded->column_data(i), from->view(), decoded->column_name(i));
    }
  }
  return true;
}

void reader::impl::renew_dictionaries(const std::shared_ptr<context>& ctx) {
  auto present = dictionaries_of(*decoded);
  if (present != on_host || ctx != uploaded_to) {
    uploaded = {};
    on_host = std::move(present);
    uploaded_to = ctx;
  }
}

std::optional<batch> reader::impl::next(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  if (broken) {
    throw *broken;
  }
  if (ended) {
    return std::nullopt;
  }
  if (std::exchange(reopen, false)) {
    begin();
  }
  views = ctx->on_host() && options.copy != copy_policy::always;
  if (ctx->on_host() && !views) {
    pool->charge_to(ctx->memory_budget()); // columns are copied out at once, so ordinary memory is enough
  } else {
    pool->allocate_for(ctx);
  }
  messages->take_bodies(views ? detail::bodies::viewed : detail::bodies::copied, *pool);
  const std::unique_ptr<detail::bounded_pool, void (*)(detail::bounded_pool*)> charged(
      pool.get(), [](detail::bounded_pool* of) { of->charge_to(nullptr); });
  return decode_and_import(ctx);
}

std::optional<batch> reader::impl::decode_and_import(const std::shared_ptr<context>& ctx) {
  retry = false;
  try {
    if (decoded == nullptr && !decode()) {
      return std::nullopt;
    }
  } catch (const error& failure) {
    decoded = nullptr;
    if (!retry) {
      broken = failure;
    }
    throw;
  }
  renew_dictionaries(ctx);

  import_options importing;
  importing.copy = messages->scratch() ? copy_policy::always : options.copy;
  importing.check = options.check;
  importing.scope = check_scope::every_row;
  importing.upload.tag = "read_ipc";
  try {
    auto imported = detail::import_record_batch(ctx, fields->fields(), *decoded, uploaded, importing);
    for (int i = 0; options.check_texts && i < decoded->num_columns(); ++i) {
      check(check_texts(decoded->column_data(i)), concat("column '", decoded->column_name(i), "'"));
    }
    decoded = nullptr;
    ++number;
    ++so_far.batches;
    so_far.rows = checked_add(so_far.rows, imported.rows, "rows of the source");
    so_far.bytes = messages->body_bytes();
    return imported;
  } catch (const error& failure) {
    rethrow_input(failure, place());
  }
}

/// Whether a plan may take the source. Symbols are numbered batch by batch, and a plan reads single offsets
/// first: with an object that reads ranges, each of them would be a request.
bool reader::impl::can_be_planned() const {
  return from->near_by() && fields == shown && !ended && options.copy != copy_policy::never;
}

bool reader::impl::copied_by_plan(const context& ctx) const {
  return can_be_planned() && (options.copy == copy_policy::always || !ctx.on_host() ||
                              options.rechunk == true || messages->is_packed());
}

/// What is left to read, as plans take it.
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
    return sum;
  };
  try {
    const progress_hook told = [&](const progress& read) { hook(since(read)); };
    const auto planned = plan(*ctx);
    auto made = planned == nullptr ? std::nullopt
                                   : detail::read_whole(ctx, *planned, planned->everything().spans, join,
                                                        hook ? told : hook);
    if (!made) {
      return std::nullopt;
    }
    so_far = since({made->batches, -1, made->rows.rows(), made->body_bytes});
    number += made->batches;
    ended = true;
    decoded = nullptr;
    return std::move(made->rows);
  } catch (const error& failure) {
    if (failure.code() == errc::format) {
      broken = failure;
    }
    throw;
  }
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
  decoded = nullptr;
  uploaded = {};
  on_host = {};
  stream = nullptr;
  messages = nullptr;
}

table reader::impl::read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook) {
  require_argument(ctx, "ctx");
  if (broken) {
    throw *broken;
  }
  const bool join = options.rechunk.value_or(!ctx->on_host());
  if (auto made = read_at_once(ctx, join, hook)) {
    return std::move(*made);
  }
  std::vector<batch> batches;
  while (auto read = next(ctx)) {
    batches.push_back(std::move(*read));
    if (hook) {
      hook(so_far);
    }
  }
  table made = table::make_sharing(ctx, shown, std::move(batches));
  if (join && options.copy == copy_policy::never && made.batches().size() > 1) {
    throw error(errc::exchange,
                concat(from->name(), ": ", made.batches().size(), " batches can't be joined without a copy"));
  }
  return join ? combine_chunks(made) : made;
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

std::unique_ptr<reader> reader::open(std::string name, std::uint64_t size,
                                     std::function<void(std::uint64_t, std::span<std::byte>)> read,
                                     read_options options) {
  auto from = detail::source_of(std::move(name), size, std::move(read));
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
  while (const auto message = take(walked.ReadNextMessage(), name())) {
  }
  return walked.next_batch();
}

std::string built_arrow_version() { return ARROW_VERSION_STRING; }
std::string loaded_arrow_version() { return arrow::GetBuildInfo().version_string; }

} // namespace saeta::ipc
