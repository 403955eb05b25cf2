#include "saeta/column/table.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/row_bytes.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <cstring>

namespace saeta {
namespace {

std::string place(const schema& fields, std::size_t batch_index, std::size_t column_index) {
  return concat("batch ", batch_index, ", column ", column_index, " '", fields.fields[column_index].name,
                "'");
}

void require_batch(const context& ctx, const schema& fields, const batch& piece, std::size_t index) {
  if (piece.rows < 0) {
    throw error(errc::invalid_argument, concat("batch ", index, ": the number of rows is ", piece.rows));
  }
  if (piece.columns.size() != fields.fields.size()) {
    throw error(errc::invalid_argument, concat("batch ", index, ": ", piece.columns.size(),
                                               " columns, expected ", fields.fields.size()));
  }
  for (std::size_t i = 0; i < piece.columns.size(); ++i) {
    const column& part = piece.columns[i];
    if (part.type() != fields.fields[i].type) {
      throw error(errc::type_mismatch, concat(place(fields, index, i), ": type ", part.type().name(),
                                              ", expected ", fields.fields[i].type.name()));
    }
    if (part.length() != piece.rows) {
      throw error(errc::invalid_argument,
                  concat(place(fields, index, i), ": ", part.length(), " rows, expected ", piece.rows));
    }
    if (!part.ctx()->shares_with(ctx)) {
      throw error(errc::invalid_argument,
                  concat(place(fields, index, i), ": in another context, of ",
                         to_string(part.ctx()->device()), " instead of ", to_string(ctx.device()),
                         "; copy_to moves it (Column.to in Python)"));
    }
  }
}

void require_column(const table& of, std::size_t index) {
  if (index >= of.column_count()) {
    throw error(errc::out_of_range,
                concat("column ", index, " of a table with ", of.column_count(), " columns"));
  }
}

} // namespace

table::table(std::shared_ptr<context> ctx, std::shared_ptr<const schema_index> fields,
             std::vector<batch> batches, std::int64_t rows)
    : ctx_(std::move(ctx)), schema_(std::move(fields)), batches_(std::move(batches)), rows_(rows) {
  if (batches_.size() > 1) {
    ends_.reserve(batches_.size());
    for (const batch& piece : batches_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + piece.rows);
    }
  }
}

table table::make(std::shared_ptr<context> ctx, schema fields, std::vector<batch> batches) {
  return make_sharing(std::move(ctx), std::make_shared<const schema_index>(std::move(fields)),
                      std::move(batches));
}

table table::make_sharing(std::shared_ptr<context> ctx, std::shared_ptr<const schema_index> fields,
                          std::vector<batch> batches) {
  if (ctx == nullptr) {
    throw error(errc::invalid_argument, "table: the context is null");
  }
  require_argument(fields, "fields");
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    require_batch(*ctx, fields->fields(), batches[i], i);
    rows = checked_add(rows, batches[i].rows, "rows of a table");
  }
  return {std::move(ctx), std::move(fields), std::move(batches), rows};
}

std::shared_ptr<const field> table::shared_field(std::size_t index) const {
  require_column(*this, index);
  return {schema_, &fields().fields[index]};
}

std::vector<column> table::pieces(std::size_t index) const {
  require_column(*this, index);
  std::vector<column> columns;
  columns.reserve(batches_.size());
  for (const batch& piece : batches_) {
    columns.push_back(piece.columns[index]);
  }
  return columns;
}

table table::slice(std::int64_t offset, std::int64_t length) const {
  if (offset < 0 || length < 0 || offset > rows() || length > rows() - offset) {
    throw error(errc::out_of_range,
                concat("slice of ", length, " rows from row ", offset, " of a table of ", rows(), " rows"));
  }
  std::vector<batch> kept;
  auto number = static_cast<std::size_t>(std::ranges::upper_bound(ends_, offset) - ends_.begin());
  std::int64_t first = number == 0 ? 0 : ends_[number - 1]; // row of the table at which the batch starts
  for (; number < batches_.size() && first < offset + length; ++number) {
    const batch& piece = batches_[number];
    const std::int64_t begin = std::max(offset - first, std::int64_t{0});
    const std::int64_t end = std::min(offset + length - first, piece.rows);
    first += piece.rows;
    if (begin >= end) {
      continue;
    }
    batch cut{end - begin, {}};
    cut.columns.reserve(piece.columns.size());
    for (const column& part : piece.columns) {
      cut.columns.push_back(part.slice(begin, end - begin));
    }
    kept.push_back(std::move(cut));
  }
  return {ctx(), schema_, std::move(kept), length};
}

table table::select(std::span<const std::size_t> columns) const {
  schema chosen{{}, fields().metadata};
  for (const std::size_t index : columns) {
    require_column(*this, index);
    chosen.fields.push_back(fields().fields[index]);
  }
  std::vector<batch> narrowed;
  narrowed.reserve(batches_.size());
  for (const batch& piece : batches_) {
    batch& part = narrowed.emplace_back(batch{piece.rows, {}});
    for (const std::size_t index : columns) {
      part.columns.push_back(piece.columns[index]);
    }
  }
  return {ctx_, std::make_shared<const schema_index>(std::move(chosen)), std::move(narrowed), rows()};
}

std::uint64_t table::byte_size() const {
  std::uint64_t bytes = bytes_.load();
  if (bytes == size_memo::unknown) {
    std::vector<column> columns;
    for (const batch& piece : batches_) {
      columns.insert(columns.end(), piece.columns.begin(), piece.columns.end());
    }
    const row_bytes row_bytes = bytes_of_columns(columns, scattered_rows::sparse);
    bytes = row_bytes.total();
    if (row_bytes.measured) {
      bytes_.store(bytes);
    }
  }
  return bytes;
}

namespace {

/// Wide enough for every count: a u64 above the range of i64 exceeds every capacity instead of being
/// negative.
__extension__ using wide_count = __int128;

template <class T>
wide_count value_at(const std::byte* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

wide_count decode(const std::byte* bytes, const data_type& type) {
  switch (type.id()) {
  case type_id::uint32:
    return value_at<std::uint32_t>(bytes);
  case type_id::int32:
    return value_at<std::int32_t>(bytes);
  case type_id::uint64:
    return value_at<std::uint64_t>(bytes);
  default:
    return value_at<std::int64_t>(bytes);
  }
}

std::int64_t require_room(wide_count count, std::int64_t capacity) {
  if (count < 0 || count > capacity) {
    throw error(errc::out_of_range, concat("the row count is ", count < 0 ? "-" : "",
                                           static_cast<std::uint64_t>(count < 0 ? -count : count),
                                           ", the table has room for ", capacity, " rows"));
  }
  return static_cast<std::int64_t>(count);
}

std::int64_t read_count(const column& count, std::int64_t capacity) {
  const std::shared_ptr<context>& ctx = count.ctx();
  const stream_ref stream = ctx->work_stream();
  const auto width = static_cast<std::size_t>(count.type().byte_width());
  std::byte bytes[sizeof(std::uint64_t)];
  use_token token(stream, {reads(count.values())});
  ctx->copies().read_scalar(bytes,
                            token.span<const std::byte>(count.values()).data() +
                                static_cast<std::size_t>(count.offset()) * width,
                            width, stream, count.values().kind());
  token.finish();
  return require_room(decode(bytes, count.type()), capacity);
}

} // namespace

counted_table::counted_table(table capacity, column count)
    : capacity_(std::move(capacity)), count_(std::move(count)),
      known_(std::make_shared<std::atomic<std::int64_t>>(unread)) {}

counted_table counted_table::make(table capacity, column count, std::optional<std::int64_t> known) {
  const data_type& type = count.type();
  if (!type.is_integer() || type.byte_width() < 4 || !type.extension_name().empty()) {
    throw error(errc::type_mismatch, concat("the row count is of type ", type.name(),
                                            ", expected uint32, uint64, int32 or int64"));
  }
  if (count.length() != 1 || count.null_count() != 0) {
    throw error(errc::invalid_argument, concat("a row count is one number, not ", count.length(),
                                               " rows with ", count.null_count(), " nulls"));
  }
  if (!count.ctx()->shares_with(*capacity.ctx())) {
    throw error(errc::invalid_argument, "the row count is in another context than the table");
  }
  counted_table table(std::move(capacity), std::move(count));
  if (known) {
    table.known_->store(require_room(*known, table.capacity_.rows()), std::memory_order_relaxed);
  }
  return table;
}

std::int64_t counted_table::rows() const {
  std::int64_t rows = held_by(known_, "counted table").load(std::memory_order_relaxed);
  if (rows == unread) {
    rows = read_count(count_, capacity_.rows());
    known_->store(rows, std::memory_order_relaxed);
  }
  return rows;
}

std::optional<std::int64_t> counted_table::known_rows() const {
  const std::int64_t rows = held_by(known_, "counted table").load(std::memory_order_relaxed);
  return rows == unread ? std::nullopt : std::optional(rows);
}

} // namespace saeta
