// Checks the values of columns that were made of buffers from elsewhere.
//
// What      The checks of an import (validation::full): every offset, index, run end, view and union row
//           stays inside what it refers to, in every row that a child has. Values are read where they are,
//           with one kernel per level of nesting.
// Owner     Keeps the dictionaries that it has checked.
// Order     After the last writes of the columns. The host waits for the answers.
// Thread    One at a time.
// Failure   error format naming the column, the row and the numbers; budget_exceeded, closed, device.
#pragma once

#include "saeta/base/required.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/transfer/host_array.hpp"

#include <memory>
#include <span>
#include <utility>

namespace saeta {

class column_checker {
public:
  explicit column_checker(std::shared_ptr<context> ctx) : ctx_(required(std::move(ctx), "ctx")) {}

  /// @param columns  of the context, one for each field; structurally valid, as `column::make` leaves them
  void check(std::span<const column> columns, std::span<const field> fields);
  /// Checks the values of a dictionary once for all columns that share it.
  void check_dictionary(const std::shared_ptr<const column>& values, const field& described);

private:
  std::shared_ptr<context> ctx_;
  dictionary_cache known_;
};

} // namespace saeta
