#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/value_reason.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/symbols/symbols.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace saeta {
namespace {

/// The rows of an array that are checked.
struct looked_at {
  const host_array* array = nullptr;
  row_window rows{};
  array_place place;
  bool reads_borders = false; ///< its first and last offset are not known to be in range
  // Positions in the lists of the level:
  std::size_t check = 0;
  bool checked = false;
  std::size_t requests = 0;
};

/// The values of a checked array, for the message about a failed check.
class values_of_array final : public checked_values {
public:
  values_of_array(const host_array& of, const value_check& check, const array_memory& memory)
      : of_(of), check_(check), memory_(memory) {}

  std::int64_t number(std::size_t buffer, std::int64_t row, std::int32_t width) override {
    const void* const values = buffer == first_buffer() ? check_.values : check_.second;
    return memory_.number(static_cast<const std::byte*>(values) + row * width,
                          static_cast<std::size_t>(width));
  }
  std::int64_t child_rows(std::size_t child) override { return of_.children[child].length; }
  std::int64_t variadic_bytes(std::size_t buffer) override {
    return static_cast<std::int64_t>(of_.buffers[of_.type.buffer_count() + buffer].size());
  }
  std::span<const std::byte> text(std::int64_t row) override {
    return bytes_of_value(of_, check_.bit_offset + row);
  }

private:
  /// The buffer that `value_check::values` points into.
  [[nodiscard]] std::size_t first_buffer() const { return check_.kind == check_kind::unions ? 0 : 1; }

  const host_array& of_;
  const value_check& check_;
  const array_memory& memory_;
};

const std::byte* value_at(const host_array& of, std::size_t buffer, std::int64_t row) {
  return of.buffers[buffer].data() + row * of.type.buffer(buffer).width;
}

/// The check of strings for UTF-8, in a second pass: the first one has found that they lie in their buffers.
std::optional<check_kind> text_check(const data_type& type) {
  switch (type.id()) {
  case type_id::string:
  case type_id::large_string:
    return check_kind::texts;
  case type_id::string_view:
    return check_kind::text_views;
  default:
    return std::nullopt;
  }
}

bool has_dictionaries_below(const host_array& of) {
  return std::ranges::any_of(of.children, [](const host_array& child) {
    return child.dictionary != nullptr || has_dictionaries_below(child);
  });
}

/// Checks one level of nesting after the other: the offsets of a level are known to ascend before they select
/// the rows of the children.
class value_checker {
public:
  /// @param texts  checks only strings for UTF-8; all other values have been checked
  value_checker(const array_memory& memory, const dictionary_cache& known, bool every_row, bool texts)
      : memory_(memory), known_(known), every_row_(every_row), texts_(texts) {}

  void add(const host_array& source, std::int64_t offset, std::int64_t length, const array_place& place,
           bool is_child = false) {
    if (source.dictionary != nullptr && known_.find(*source.dictionary) == nullptr &&
        known_.find_symbols(*source.dictionary) == nullptr) {
      const host_array& values = *source.dictionary;
      add(values, values.offset, values.length, place.dictionary());
    }
    // Dictionaries are imported even if no row refers to them.
    if (length > 0 ? source.type.check() || !source.children.empty() : has_dictionaries_below(source)) {
      level_.push_back({.array = &source,
                        .rows = window_of(source.type, offset, length),
                        .place = place,
                        .reads_borders = is_child || every_row_});
    }
  }

  void run() {
    while (!level_.empty()) {
      check_level();
      above_.push_back(std::exchange(level_, {}));
      add_children(above_.back());
    }
  }

private:
  /// The check of an array's own values; nullopt if its type needs none.
  std::optional<value_check> check_of(const looked_at& of) {
    const host_array& source = *of.array;
    const auto kind = texts_ ? text_check(source.type) : source.type.check();
    if (!kind || of.rows.rows == 0) {
      return std::nullopt;
    }
    value_check check;
    check.kind = *kind;
    if (*kind == check_kind::run_ends) {
      const host_array& ends = source.children[0];
      check.width = ends.type.byte_width();
      check.values = value_at(ends, 1, ends.offset);
      check.count = ends.length;
      return check;
    }
    const std::size_t first = source.type.has_validity() ? 1 : 0;
    check.width = source.type.buffer(first).width;
    check.values = value_at(source, first, of.rows.first);
    check.count = of.rows.rows;
    if (first == 1 && *kind != check_kind::offsets) {
      check.validity = reinterpret_cast<const std::uint8_t*>(source.buffers[0].data());
      check.bit_offset = of.rows.first;
    }
    switch (*kind) {
    case check_kind::indices:
      check.limit = *code_limit(source);
      break;
    case check_kind::list_views:
      check.second = value_at(source, 2, of.rows.first);
      check.limit = source.children[0].length;
      break;
    case check_kind::unions:
      if (source.type.buffer_count() == 2) {
        check.second = value_at(source, 1, of.rows.first);
      }
      table_of_next_ = add_union(source);
      break;
    case check_kind::views:
    case check_kind::text_views:
      check.limit = static_cast<std::int64_t>(source.buffers.size() - source.type.buffer_count());
      table_of_next_ = add_sizes(source);
      break;
    case check_kind::texts:
      check.second = source.buffers[2].data();
      check.limit = std::ssize(source.buffers[2]);
      break;
    case check_kind::offsets:
    case check_kind::run_ends:
      break;
    }
    return check;
  }

  /// Adds a table with the rows of the child of each type id, and returns its position.
  std::size_t add_union(const host_array& source) {
    constexpr std::size_t type_ids = 256;
    const std::size_t at = list_.tables.size();
    list_.tables.resize(at + type_ids, -1);
    const auto codes = source.type.type_codes();
    for (std::size_t i = 0; i < codes.size(); ++i) {
      list_.tables[at + static_cast<std::uint8_t>(codes[i])] = source.children[i].length;
    }
    return at;
  }

  std::size_t add_sizes(const host_array& source) {
    const std::size_t at = list_.tables.size();
    const auto buffers = std::span(source.buffers).subspan(source.type.buffer_count());
    for (const std::span<const std::byte>& buffer : buffers) {
      list_.tables.push_back(static_cast<std::int64_t>(buffer.size()));
    }
    for (const std::span<const std::byte>& buffer : buffers) {
      list_.tables.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(buffer.data())));
    }
    return at;
  }

  void check_level() {
    list_ = {};
    for (looked_at& array : level_) {
      table_of_next_ = check_list::no_table;
      if (const auto needed = check_of(array)) {
        array.check = list_.checks.size();
        array.checked = true;
        list_.checks.push_back(*needed);
        list_.table_at.push_back(table_of_next_);
      }
    }
    const std::vector<std::int64_t> bad = memory_.find_bad_rows(list_);
    for (const looked_at& array : level_) {
      if (array.checked && bad[array.check] != no_bad_row) {
        throw error(errc::format, concat(array.place, ": ",
                                         reason(*array.array, list_.checks[array.check], bad[array.check])));
      }
    }
  }

  [[nodiscard]] std::string reason(const host_array& of, const value_check& check, std::int64_t row) const {
    // The limit of the check may be smaller: the type of the indices bounds it, too.
    const std::int64_t limit = of.dictionary != nullptr ? of.dictionary->length : check.limit;
    values_of_array values(of, check, memory_);
    return reason_of(of.type, {check.kind, check.width, limit, row}, values);
  }

  /// True if the first and last offset of the window must be read.
  [[nodiscard]] static bool asks_for_offsets(const looked_at& of) {
    return of.rows.rows != 0 && of.array->type.offset_width() != 0 &&
           (of.reads_borders || !of.array->children.empty());
  }

  [[nodiscard]] static bool selects_runs(const looked_at& of) {
    return of.rows.rows != 0 && of.array->type.mapping() == row_mapping::run_ends;
  }

  /// Requests the first and last offset of a window, or its first and last run. If every run is checked, only
  /// the last run end is needed.
  void ask_children(looked_at& of, std::vector<value_request>& requests) const {
    const host_array& source = *of.array;
    of.requests = requests.size();
    if (asks_for_offsets(of)) {
      for (const std::int64_t row : {of.rows.first, of.rows.first + of.rows.rows}) {
        requests.push_back({.at = value_at(source, 1, row), .width = source.type.buffer(1).width});
      }
    } else if (selects_runs(of) && every_row_) {
      const host_array& ends = source.children[0];
      requests.push_back(
          {.at = value_at(ends, 1, ends.offset + ends.length - 1), .width = ends.type.byte_width()});
    } else if (selects_runs(of)) {
      const host_array& ends = source.children[0];
      for (const std::int64_t row : {of.rows.offset, of.rows.rows - 1}) {
        requests.push_back({.at = value_at(ends, 1, ends.offset),
                            .width = ends.type.byte_width(),
                            .search = true,
                            .count = ends.length,
                            .greater = row});
      }
    }
  }

  /// Ascending offsets may still begin below 0 or end after the values, if only a part of an array is
  /// checked.
  static void require_range(const looked_at& of, std::int64_t first, std::int64_t last) {
    const host_array& source = *of.array;
    const bool bytes = source.children.empty();
    const std::int64_t limit =
        bytes ? static_cast<std::int64_t>(source.buffers[2].size()) : source.children.front().length;
    if (first < 0 || last > limit) {
      throw error(errc::format, concat(of.place, ": offsets run from ", first, " to ", last, ", there are ",
                                       limit, bytes ? " bytes" : " values"));
    }
  }

  /// @param last  the last run end
  static void require_runs(const looked_at& of, std::int64_t last) {
    if (last < of.rows.rows) {
      throw error(errc::format, concat(of.place, ": the last of ", of.array->children[0].length,
                                       " run ends is ", last, ", the column has ", of.rows.rows, " rows"));
    }
  }

  [[nodiscard]] child_rows rows_of(const looked_at& of, std::size_t index,
                                   const std::vector<std::int64_t>& answers) const {
    const host_array& source = *of.array;
    if (every_row_) {
      return {0, source.children[index].length};
    }
    const bool runs = selects_runs(of);
    child_rows pointed;
    if (runs || asks_for_offsets(of)) {
      const std::int64_t first = answers[of.requests];
      pointed = {first, answers[of.requests + 1] - first + (runs ? 1 : 0)};
    }
    return select_child_rows(source.type, of.rows.first, of.rows.rows, pointed,
                             source.children[index].length);
  }

  void add_children(std::deque<looked_at>& parents) {
    std::vector<value_request> requests;
    for (looked_at& parent : parents) {
      ask_children(parent, requests);
    }
    const std::vector<std::int64_t> answers = memory_.numbers(requests);
    for (const looked_at& parent : parents) {
      if (asks_for_offsets(parent)) {
        require_range(parent, answers[parent.requests], answers[parent.requests + 1]);
      } else if (selects_runs(parent) && every_row_) {
        require_runs(parent, answers[parent.requests]);
      }
      for (std::size_t i = 0; i < parent.array->children.size(); ++i) {
        const host_array& child = parent.array->children[i];
        const child_rows rows = rows_of(parent, i, answers);
        add(child, child.offset + rows.first, rows.count,
            parent.place.child(parent.array->type.children()[i].name), true);
      }
    }
  }

  const array_memory& memory_;
  const dictionary_cache& known_;
  const bool every_row_;
  const bool texts_;
  std::deque<looked_at> level_;
  std::vector<std::deque<looked_at>> above_; ///< finished levels: places of children point into them
  check_list list_;                          ///< of the current level
  std::size_t table_of_next_ = check_list::no_table;
};

} // namespace

void check_values(std::span<const host_array> arrays, std::span<const field> fields,
                  const dictionary_cache& known, const array_memory& memory, check_scope scope) {
  for (const bool texts : {false, true}) {
    if (texts && scope != check_scope::every_text) {
      return;
    }
    value_checker checker(memory, known, scope != check_scope::named_rows, texts);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      checker.add(arrays[i], arrays[i].offset, arrays[i].length, array_place::column(fields[i].name));
    }
    checker.run();
  }
}

namespace {

bool may_refer_elsewhere(const column& of) {
  return of.type().check().has_value() || !of.type().children().empty();
}

} // namespace

void column_checker::check(std::span<const column> columns, std::span<const field> fields) {
  if (std::ranges::none_of(columns, may_refer_elsewhere)) {
    return; // plain values: a table may have thousands of such columns
  }
  storage_reads memory(ctx_->work_stream());
  for (const column& column : columns) {
    append_reads(column, memory);
  }
  use_token token(ctx_->work_stream(), memory.uses());
  const host_batch view = view_in_place({0, {columns.begin(), columns.end()}});
  const device_memory there(ctx_);
  check_values(view.arrays, fields, known_, ctx_->on_host() ? in_host_memory() : there,
               check_scope::every_row);
  token.finish();
}

void column_checker::check_dictionary(const std::shared_ptr<const column>& values, const field& described) {
  require_argument(values, "values");
  check(std::span(values.get(), 1), std::span(&described, 1));
  known_.remember(view_in_place({0, {*values}}).arrays.front(), values, nullptr);
}

} // namespace saeta
