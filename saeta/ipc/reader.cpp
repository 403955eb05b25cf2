#include "saeta/ipc/reader.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/detail/arrow_bridge.hpp"
#include "saeta/ipc/detail/bounded_pool.hpp"
#include "saeta/ipc/detail/message_source.hpp"
#include "saeta/ipc/detail/projection.hpp"
#include "saeta/ipc/detail/source.hpp"

#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/config.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/util/config.h>

#include <algorithm>
#include <limits>

namespace saeta::ipc {
namespace {

using dictionary_list = std::vector<std::shared_ptr<arrow::ArrayData>>;

std::int64_t decode_limit(const read_options& options, std::size_t source_bytes) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  return options.decode_limit == 0 ? detail::default_decode_limit(source_bytes)
                                   : static_cast<std::int64_t>(std::min(most, options.decode_limit));
}

void append_dictionaries(const arrow::ArrayData& of, dictionary_list& found) {
  for (const auto& child : of.child_data) {
    append_dictionaries(*child, found);
  }
  if (of.dictionary != nullptr) {
    found.push_back(of.dictionary);
  }
}

/// The dictionaries of a batch, in the order of its columns; those inside dictionaries are a part of the outer one.
dictionary_list dictionaries_of(const arrow::RecordBatch& source) {
  dictionary_list found;
  for (const auto& column : source.column_data()) {
    append_dictionaries(*column, found);
  }
  return found;
}

void require_views(const arrow::ArrayData& data, const detail::source& from, const std::string& column) {
  for (const auto& part : data.buffers) {
    if (part != nullptr && !from.contains(part->data(), static_cast<std::size_t>(part->size()))) {
      throw error(errc::exchange,
                  concat("column '", column, "' can't be a view of the source: its body is compressed, ",
                         "misaligned, of foreign byte order or a dictionary in parts"));
    }
  }
  for (const auto& child : data.child_data) {
    require_views(*child, from, column);
  }
  if (data.dictionary != nullptr) {
    require_views(*data.dictionary, from, column);
  }
}

} // namespace

struct reader::impl {
  impl(detail::source bytes, read_options chosen);

  std::optional<batch> next(const std::shared_ptr<context>& home);
  bool decode();
  void renew_dictionaries(const std::shared_ptr<context>& home);
  [[nodiscard]] std::string place() const;
  void check(const arrow::Status& status) const;

  detail::source from;
  read_options options;
  detail::bounded_pool::pointer pool;
  detail::message_source* messages = nullptr; ///< owned by `stream`
  detail::projection projected;
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> stream;
  schema fields; ///< of the batches as they are in the source
  schema shown;  ///< of the columns that they become
  progress so_far;
  std::int64_t number = 0; ///< of the batch that is read next, in the source

  std::shared_ptr<arrow::RecordBatch> decoded; ///< read, but not in a context yet
  std::optional<error> broken;                 ///< what stopped the decoder: it can't go on
  // The cache keeps alive what it knows, a decoded batch perhaps: it begins anew when a dictionary changes.
  dictionary_cache uploaded;
  dictionary_list on_host;
  std::shared_ptr<context> uploaded_to;
};

reader::impl::impl(detail::source bytes, read_options chosen)
    : from(std::move(bytes)), options(std::move(chosen)),
      pool(detail::bounded_pool::make(decode_limit(options, from.bytes.size()))) {
  auto reading = std::make_unique<detail::message_source>(from, options.batches);
  messages = reading.get();
  projected = detail::project(*messages->described(), options.columns, from.name);
  fields = detail::schema_of(*projected.described, from.name);
  shown = imported(fields);

  auto decoding = arrow::ipc::IpcReadOptions::Defaults();
  decoding.memory_pool = pool.get();
  decoding.included_fields = projected.decoded;
  decoding.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  stream = take(arrow::ipc::RecordBatchStreamReader::Open(std::move(reading), decoding), from.name);
  so_far.total_batches = messages->batch_count();
  number = options.batches ? options.batches->first : 0;
}

std::string reader::impl::place() const { return concat(from.name, ": batch ", number); }

void reader::impl::check(const arrow::Status& status) const {
  detail::check_decoded(status, *pool, from.bytes.size(), place());
}

/// Reads the next batch into `decoded`; false at the end.
bool reader::impl::decode() {
  check(stream->ReadNext(&decoded));
  if (decoded == nullptr) {
    messages->close_range();
    return false;
  }
  if (messages->format() == container::file && stream->stats().num_replaced_dictionaries > 0) {
    throw error(errc::format, concat(from.name, ": a dictionary is given twice, which a file can't hold"));
  }
  decoded = take(decoded->SelectColumns(projected.order), place());
  check(decoded->Validate());
  if (options.copy == copy_policy::never) {
    for (int i = 0; i < decoded->num_columns(); ++i) {
      require_views(*decoded->column_data(i), from, decoded->column_name(i));
    }
  }
  return true;
}

void reader::impl::renew_dictionaries(const std::shared_ptr<context>& home) {
  auto present = dictionaries_of(*decoded);
  if (present != on_host || home != uploaded_to) {
    uploaded = {};
    on_host = std::move(present);
    uploaded_to = home;
  }
}

std::optional<batch> reader::impl::next(const std::shared_ptr<context>& home) {
  if (broken) {
    throw *broken;
  }
  try {
    if (decoded == nullptr && !decode()) {
      return std::nullopt;
    }
  } catch (const error& failure) {
    decoded = nullptr;
    broken = failure;
    throw;
  }
  renew_dictionaries(home);

  import_options importing;
  importing.copy = options.copy;
  importing.check = options.check;
  importing.upload.tag = "read_ipc";
  importing.upload.readable = from.bytes;
  importing.upload.file = from.region();
  try {
    auto imported = detail::import_record_batch(home, fields, *decoded, uploaded, importing);
    decoded = nullptr;
    ++number;
    ++so_far.batches;
    so_far.rows = checked_add(so_far.rows, imported.rows, "rows of the source");
    so_far.bytes = messages->body_bytes();
    return imported;
  } catch (const error& failure) {
    rethrow(failure, place());
  }
}

reader::reader(std::unique_ptr<impl> state) : impl_(std::move(state)) {}
reader::~reader() = default;

std::unique_ptr<reader> reader::open(const std::filesystem::path& file, read_options options) {
  auto state = std::make_unique<impl>(detail::open_source(file), std::move(options));
  return std::unique_ptr<reader>(new reader(std::move(state)));
}

std::unique_ptr<reader> reader::open(std::span<const std::byte> bytes, std::shared_ptr<void> keepalive,
                                     read_options options) {
  detail::source from{"bytes", bytes, std::move(keepalive), -1};
  return std::unique_ptr<reader>(new reader(std::make_unique<impl>(std::move(from), std::move(options))));
}

container reader::format() const noexcept { return impl_->messages->format(); }
const schema& reader::fields() const noexcept { return impl_->shown; }
std::int64_t reader::batch_count() const noexcept { return impl_->messages->batch_count(); }
std::optional<batch> reader::next(const std::shared_ptr<context>& home) { return impl_->next(home); }

table reader::read_all(const std::shared_ptr<context>& home, const progress_hook& hook) {
  std::vector<batch> batches;
  while (auto read = next(home)) {
    batches.push_back(std::move(*read));
    if (hook) {
      hook(impl_->so_far);
    }
  }
  return table::make(home, impl_->shown, std::move(batches));
}

std::string built_arrow_version() { return ARROW_VERSION_STRING; }
std::string loaded_arrow_version() { return arrow::GetBuildInfo().version_string; }

} // namespace saeta::ipc
