#include "saeta/interop/arrow/rows.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/interop/arrow/import.hpp"

#include <utility>

namespace saeta {

arrow_rows::arrow_rows(std::shared_ptr<context> ctx, schema fields, import_options options)
    : ctx_(required(std::move(ctx), "ctx")), fields_(std::move(fields)), options_(std::move(options)),
      dictionaries_(std::make_unique<rolling_dictionaries>()) {}

arrow_rows::~arrow_rows() = default;

void arrow_rows::begin(std::int64_t rows) {
  view_ = {.rows = rows, .arrays = {}, .keepalive = nullptr};
  view_.arrays.reserve(fields_.fields.size());
}

void arrow_rows::add(const ArrowArray& column) {
  const std::size_t index = view_.arrays.size();
  if (index == fields_.fields.size()) {
    throw error(errc::invalid_argument, concat("batch: more than ", index, " columns"));
  }
  view_column(fields_.fields[index], column, 0, view_.rows, in_host_memory(), view_.arrays.emplace_back());
}

void arrow_rows::end(std::shared_ptr<void> keepalive) {
  if (view_.arrays.size() != fields_.fields.size()) {
    throw error(errc::invalid_argument,
                concat("batch: ", view_.arrays.size(), " columns, expected ", fields_.fields.size()));
  }
  view_.keepalive = std::move(keepalive);
  placed_batch placed =
      place_view(ctx_, std::exchange(view_, {}), fields_.fields, dictionaries_->dictionaries(), options_);
  dictionaries_->roll_to(placed);
  batches_.push_back(std::move(placed.columns));
}

table arrow_rows::finish() {
  return table::make(ctx_, resolve_symbols(std::exchange(fields_, {})), std::exchange(batches_, {}));
}

} // namespace saeta
