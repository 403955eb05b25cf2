// Columns of symbols in tests: conversion to and from strings.
#pragma once

#include "saeta/symbols/symbol_table.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/tables.hpp"

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace saeta::support {

/// Returns the name of each row, or nullopt for a null. @throws error out_of_range for a symbol without a
/// name
inline std::vector<cell> names_of(const column& source) {
  std::vector<cell> rows = cells(source);
  for (cell& each : rows) {
    if (each) {
      symbol number = 0;
      std::memcpy(&number, each->data(), sizeof number);
      each = std::string(source.type().symbols()->name(number));
    }
  }
  return rows;
}

/// Replaces the first column, which has strings, by symbols.
inline table with_symbols(const table& strings, const std::shared_ptr<symbol_table>& names) {
  schema fields = strings.fields();
  fields.fields[0].type = symbol_type(names);
  std::vector<batch> batches(strings.batches().begin(), strings.batches().end());
  for (batch& each : batches) {
    each.columns[0] = as_symbols(std::span(&each.columns[0], 1), names).front();
  }
  return table::make(strings.ctx(), fields, std::move(batches));
}

} // namespace saeta::support
