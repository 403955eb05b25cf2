#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/symbols/symbol_rows.hpp"
#include "saeta/symbols/symbols.hpp"

#include <algorithm>

namespace saeta {

symbol_dictionary::symbol_dictionary(std::shared_ptr<symbol_table> table)
    : table_(required(std::move(table), "table")), text_(std::make_shared<text>()) {
  text_->offsets.push_back(0);
}

std::unique_ptr<symbol_dictionary> symbol_dictionary::of(const data_type& type) {
  return type.is_symbol() ? std::make_unique<symbol_dictionary>(type.symbols()) : nullptr;
}

void symbol_dictionary::take(const host_array& symbols, std::string_view label, std::uint32_t* indices) {
  const std::uint64_t known = table_->size();
  pages_.resize((known + page_size - 1) / page_size);
  for (std::int64_t row = 0; row < symbols.length; ++row) {
    std::uint32_t index = 0;
    if (valid_at(symbols, row)) {
      const symbol here = symbol_at(symbols, row);
      if (here >= known) {
        throw error(errc::out_of_range, concat(label, ": row ", row, ": symbol ", here,
                                               " is not in the symbol table, which has ", known, " names"));
      }
      auto& page_of = pages_[here / page_size];
      if (page_of == nullptr) {
        page_of = std::make_unique<page>();
      }
      std::uint32_t& place = (*page_of)[here % page_size];
      if (place == 0) {
        taken_.push_back(here);
        place = static_cast<std::uint32_t>(taken_.size());
      }
      index = place - 1;
    }
    if (indices != nullptr) {
      indices[row] = index;
    }
  }
}

/// Doubles the room if there is too little. Uses new memory, because consumers hold the old.
void symbol_dictionary::make_room(std::size_t names, std::size_t bytes) {
  if (names <= text_->offsets.capacity() && bytes <= text_->bytes.capacity()) {
    return;
  }
  auto larger = std::make_shared<text>();
  larger->offsets.reserve(std::max(names, 2 * text_->offsets.size()));
  larger->bytes.reserve(std::max(bytes, 2 * text_->bytes.size()));
  larger->offsets.assign(text_->offsets.begin(), text_->offsets.end());
  larger->bytes.assign(text_->bytes.begin(), text_->bytes.end());
  text_ = std::move(larger);
}

host_array symbol_dictionary::values() {
  std::size_t bytes = text_->bytes.size();
  for (std::size_t i = written_; i < taken_.size(); ++i) {
    bytes += table_->name(taken_[i]).size();
  }
  if (bytes > symbol_table::longest_name) {
    throw error(errc::overflow,
                concat("the names of ", taken_.size(), " symbols have ", bytes,
                       " bytes, and the 32-bit offsets of a dictionary reach ", symbol_table::longest_name));
  }
  make_room(taken_.size() + 1, bytes);
  for (; written_ < taken_.size(); ++written_) {
    const std::string_view name = table_->name(taken_[written_]);
    text_->bytes.insert(text_->bytes.end(), name.begin(), name.end());
    text_->offsets.push_back(static_cast<std::int32_t>(text_->bytes.size()));
  }
  host_array array;
  array.type = data_type(type_id::string);
  array.length = static_cast<std::int64_t>(taken_.size());
  array.buffers = {{}, std::as_bytes(std::span(text_->offsets)), std::as_bytes(std::span(text_->bytes))};
  return array;
}

} // namespace saeta
