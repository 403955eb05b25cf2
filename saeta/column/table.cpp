#include "saeta/column/table.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/row_bytes.hpp"

#include <algorithm>

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
  std::vector<column> found;
  found.reserve(batches_.size());
  for (const batch& piece : batches_) {
    found.push_back(piece.columns[index]);
  }
  return found;
}

table table::slice(std::int64_t offset, std::int64_t length) const {
  if (offset < 0 || length < 0 || offset > rows_ || length > rows_ - offset) {
    throw error(errc::out_of_range,
                concat("slice of ", length, " rows from row ", offset, " of a table of ", rows_, " rows"));
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
  return {ctx_, schema_, std::move(kept), length};
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
  return {ctx_, std::make_shared<const schema_index>(std::move(chosen)), std::move(narrowed), rows_};
}

std::uint64_t table::byte_size() const {
  std::uint64_t bytes = bytes_.load();
  if (bytes == size_memo::unknown) {
    std::vector<column> columns;
    for (const batch& piece : batches_) {
      columns.insert(columns.end(), piece.columns.begin(), piece.columns.end());
    }
    const row_bytes found = bytes_of_columns(columns, scattered_rows::sparse);
    bytes = found.total();
    if (found.measured) {
      bytes_.store(bytes);
    }
  }
  return bytes;
}

} // namespace saeta
