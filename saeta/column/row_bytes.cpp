#include "saeta/column/row_bytes.hpp"

#include "saeta/base/pages.hpp"
#include "saeta/device/take.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace saeta {
namespace {

constexpr const char* label = "sizes of columns";

const void* address_of(const column& of, std::size_t index) {
  return reinterpret_cast<const void*>(of.buffers()[index].address());
}

/// True if the column's rows may refer to a part of what its buffers and children hold.
bool may_be_cut(const column& of) { return of.sliced() || of.offset() != 0; }

bool may_be_cut(const column& of, std::size_t width) {
  constexpr std::size_t padding = 64; // behind the last offset
  const auto needed = (static_cast<std::size_t>(of.length()) + 1) * width;
  return may_be_cut(of) || of.offsets().size() >= needed + padding;
}

/// The number of bytes in the data buffer of the column, or of rows in its child `index`.
std::int64_t limit_of(const column& of, std::size_t index) {
  if (of.type().has_variadic_buffers()) {
    return bytes_behind_views(of);
  }
  return of.children().empty() ? static_cast<std::int64_t>(of.bytes().size()) : of.children()[index].length();
}

/// True if kernels of the device can load the numbers of buffer `index`, at most 8 bytes at once.
bool is_readable(const column& of, std::size_t index) {
  const auto width = static_cast<std::uintptr_t>(std::clamp(of.type().buffer(index).width, 1, 8));
  return of.ctx()->on_host() || of.buffers()[index].address() % width == 0;
}

/// Reads the numbers that columns of one level need, and counts rows, by one copy.
class level_reader {
public:
  level_reader(std::span<const column> columns, scattered_rows counted) : counted_(counted) {
    made_.resize(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].length() != 0) {
        add(columns[i], made_[i]);
      }
    }
  }

  std::vector<referred_rows> run(bool& measured) {
    if (questions_.empty() && counts_.empty()) {
      return std::move(made_);
    }
    try {
      fetch();
    } catch (const error&) {
      measured = false;
      spread_evenly();
    }
    return std::move(made_);
  }

private:
  /// A range of child rows or bytes that must be computed from the memory of a column.
  struct question {
    const column* of;
    child_rows* target;
    std::int64_t limit;
  };

  void add(const column& of, referred_rows& rows) {
    const data_type& type = of.type();
    if (const auto known = rows_of_children(type, of.offset(), of.length())) {
      rows.rows[0] = *known;
    } else if (const std::size_t width = type.offset_width(); width != 0) {
      add_offsets(of, width, rows.rows[0]);
    } else if (type.mapping() == row_mapping::run_ends) {
      add_runs(of, rows.rows[0]);
    } else if (type.mapping() == row_mapping::scattered || type.has_variadic_buffers()) {
      rows.rows.resize(std::max<std::size_t>(of.children().size(), 1));
      for (std::size_t i = 0; i < rows.rows.size(); ++i) {
        rows.rows[i] = {0, limit_of(of, i)};
        if (is_counted(of, rows.rows[i].count)) {
          add_count(of, i, rows.rows[i]);
        }
      }
    }
  }

  /// @param all  bytes, or rows of a child, that the column has
  [[nodiscard]] bool is_counted(const column& of, std::int64_t all) const {
    return all != 0 &&
           (counted_ == scattered_rows::referred ||
            (counted_ == scattered_rows::sparse && (may_be_cut(of) || has_more_than_usual(of, all))));
  }

  /// True if the data are so large that the rows may refer to only a small part of them. Few bytes of text
  /// and few list rows per row are usual, and so is one child row for each row of a union.
  static bool has_more_than_usual(const column& of, std::int64_t all) {
    constexpr std::int64_t usual_bytes = 64;
    constexpr std::int64_t usual_rows = 4;
    if (!of.type().type_codes().empty()) {
      return total_rows(of.children()) > of.length();
    }
    return all / (of.children().empty() ? usual_bytes : usual_rows) > of.length();
  }

  /// Adds memory to the reads of the use token.
  void add_read(const buffer& from, const byte_window& window) {
    sources_.add(from);
    if (from.present() && from.owner()->external() && from.owner()->ctx()->on_host()) {
      mapped_.push_back({reinterpret_cast<const std::byte*>(from.address()) + window.offset, window.bytes});
    }
  }

  void add_offsets(const column& of, std::size_t width, child_rows& target) {
    target = {0, limit_of(of, 0)};
    if (!may_be_cut(of, width)) {
      return;
    }
    for (const std::int64_t row : {of.offset(), of.offset() + of.length()}) {
      value_request& request = requests_.emplace_back();
      request.at = static_cast<const std::byte*>(address_of(of, 1)) + static_cast<std::size_t>(row) * width;
      request.width = static_cast<std::int32_t>(width);
      add_read(of.offsets(), {static_cast<std::size_t>(row) * width, width});
    }
    questions_.push_back({&of, &target, target.count});
  }

  void add_runs(const column& of, child_rows& target) {
    const column& ends = of.children()[0];
    target = {0, ends.length()};
    if (!may_be_cut(of)) {
      return;
    }
    const auto width = static_cast<std::size_t>(ends.type().byte_width());
    for (const std::int64_t row : {of.offset(), of.offset() + of.length() - 1}) {
      value_request& request = requests_.emplace_back();
      request.at = static_cast<const std::byte*>(address_of(ends, 1)) +
                   static_cast<std::size_t>(ends.offset()) * width;
      request.width = static_cast<std::int32_t>(width);
      request.search = true;
      request.count = ends.length();
      request.greater = row;
    }
    add_read(ends.values(), {static_cast<std::size_t>(ends.offset()) * width,
                             static_cast<std::size_t>(ends.length()) * width});
    questions_.push_back({&of, &target, target.count});
  }

  /// @param child  of a list view or a dense union
  void add_count(const column& of, std::size_t child, child_rows& target) {
    const data_type& type = of.type();
    const std::size_t values = type.has_validity() ? 1 : 0;
    if (!is_readable(of, values) || (values + 1 < type.buffer_count() && !is_readable(of, values + 1))) {
      return;
    }
    take_step& step = steps_.emplace_back();
    step.count = of.length();
    step.from = {.first = of.offset(), .count = of.length(), .limit = limit_of(of, child)};
    step.from.values = address_of(of, values);
    if (type.has_variadic_buffers()) {
      step.kind = take_kind::own_views;
      step.width = type.buffer(values).width;
      step.from.limit = static_cast<std::int64_t>(of.buffers().size() - type.buffer_count());
      if (of.known_null_count() != 0) {
        step.from.validity = static_cast<const std::uint8_t*>(address_of(of, 0));
        add_rows(of, 0);
      }
      add_table(of);
    } else {
      step.kind = type.type_codes().empty() ? take_kind::list_views : take_kind::union_rows;
      step.width = type.buffer(values + 1).width;
      step.from.second = address_of(of, values + 1);
      step.code = type.type_codes().empty() ? std::int8_t{0} : type.type_codes()[child];
      add_rows(of, values + 1);
    }
    add_rows(of, values);
    counts_.push_back({&of, &target, target.count});
  }

  void add_rows(const column& of, std::size_t index) {
    add_read(of.buffers()[index],
             bytes_of_rows(of.type().buffer(index), static_cast<std::size_t>(of.offset()),
                           static_cast<std::size_t>(of.length())));
  }

  /// Adds the sizes of the data buffers of views. After them there is room for addresses, which counting does
  /// not read.
  void add_table(const column& of) {
    const auto behind = of.buffers().subspan(of.type().buffer_count());
    tables_.emplace_back(steps_.size() - 1, table_.size());
    std::ranges::transform(behind, std::back_inserter(table_),
                           [](const buffer& buffer) { return static_cast<std::int64_t>(buffer.size()); });
    table_.resize(table_.size() + behind.size());
  }

  void fetch() {
    const std::shared_ptr<context>& ctx = of_any().ctx();
    const stream_ref work = ctx->work_stream();
    use_token token(work, sources_.uses());
    const auto tiles = static_cast<std::size_t>(number_tiles(steps_));
    const std::size_t found = requests_.size();
    values_.resize(found + numbers_of_count * steps_.size());
    if (ctx->on_host()) { // the kernels run at once, and nothing is allocated from the budget
      if (!std::ranges::all_of(mapped_, has_pages)) {
        throw error(errc::format, "a mapped file was truncated");
      }
      sums_.resize(tiles);
      set_tables(table_.data());
      queue(*ctx, requests_.data(), steps_.data(), values_.data(), sums_.data());
    } else {
      const buffer target = buffer::allocate(ctx, values_.size() * sizeof(std::int64_t), work, label);
      const buffer sums =
          tiles == 0 ? buffer() : buffer::allocate(ctx, tiles * sizeof(std::int64_t), work, label);
      const device_copy<value_request> requests(ctx, requests_);
      const device_copy<std::int64_t> table(ctx, table_);
      use_token tables(work, {reads(table.memory())});
      set_tables(table.data(tables));
      const device_copy<take_step> steps(ctx, steps_);
      use_token here(work, {reads(requests.memory()), reads(steps.memory()), writes(target), writes(sums)});
      auto* const values = here.span<std::int64_t>(target).data();
      queue(*ctx, requests.data(here), steps.data(here), values, here.span<std::int64_t>(sums).data());
      ctx->copies().read_scalars(values_, values, work);
    }
    token.finish();
    settle();
  }

  void set_tables(const std::int64_t* table) {
    for (const auto& [step, first] : tables_) {
      steps_[step].from.second = table + first;
    }
  }

  void queue(context& ctx, const value_request* requests, const take_step* steps, std::int64_t* values,
             std::int64_t* sums) {
    const stream_ref work = ctx.work_stream();
    ctx.kernels().read_values(work.native_handle(), requests_, requests, values);
    ctx.kernels().count_taken(work.native_handle(), {steps_, steps, {}, nullptr}, sums,
                              reinterpret_cast<taken_count*>(values + requests_.size()));
  }

  void settle() {
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      const question& asked = questions_[i];
      const std::int64_t first = values_[2 * i];
      const bool runs = asked.of->type().mapping() == row_mapping::run_ends;
      const std::int64_t end = values_[2 * i + 1] + (runs ? 1 : 0);
      if (first >= 0 && end >= first && end <= asked.limit) { // the offsets may never have been checked
        *asked.target = {first, end - first};
      }
    }
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const question& counted = counts_[i];
      const std::int64_t total = std::min(values_[requests_.size() + numbers_of_count * i], counted.limit);
      const std::int64_t first = counted.of->share_of(counted.limit).first;
      *counted.target = {std::min(first, counted.limit - total), total};
    }
  }

  void spread_evenly() {
    for (const question& asked : questions_) {
      *asked.target = asked.of->share_of(asked.limit);
    }
    for (const question& counted : counts_) {
      *counted.target = counted.of->share_of(counted.limit);
    }
  }

  [[nodiscard]] const column& of_any() const {
    return questions_.empty() ? *counts_.front().of : *questions_.front().of;
  }

  static constexpr std::size_t numbers_of_count = sizeof(taken_count) / sizeof(std::int64_t);

  scattered_rows counted_;
  std::vector<referred_rows> made_;
  storage_reads sources_;
  /// Memory of other owners on the host, which may be mapped files.
  std::vector<std::span<const std::byte>> mapped_;
  std::vector<value_request> requests_; ///< two for each question
  std::vector<question> questions_;
  std::vector<take_step> steps_; ///< one for each count
  std::vector<question> counts_;
  std::vector<std::int64_t> table_; ///< sizes of the data buffers of all columns of views
  std::vector<std::pair<std::size_t, std::size_t>>
      tables_; ///< the step that has a table, and where the table begins in `table_`
  std::vector<std::int64_t> values_;
  std::vector<std::int64_t> sums_;
};

} // namespace

std::int64_t bytes_behind_views(const column& of) {
  std::int64_t all = 0;
  for (const buffer& buffer : of.buffers().subspan(of.type().buffer_count())) {
    all += static_cast<std::int64_t>(buffer.size());
  }
  return all;
}

std::vector<referred_rows> find_referred_rows(std::span<const column> columns, scattered_rows counted,
                                              bool& measured) {
  return level_reader(columns, counted).run(measured);
}

namespace {

class byte_counter {
public:
  byte_counter(scattered_rows counted, bool dictionaries) : counted_(counted), dictionaries_(dictionaries) {}

  row_bytes run(std::vector<column> level) {
    while (!level.empty()) {
      const std::vector<referred_rows> rows = find_referred_rows(level, counted_, made_.measured);
      std::vector<column> next;
      for (std::size_t i = 0; i < level.size(); ++i) {
        add_buffers(level[i], rows[i]);
        add_children(level[i], rows[i], next);
        add_dictionary(level[i], next);
      }
      level = std::move(next);
    }
    return std::move(made_);
  }

private:
  void add(const buffer& whole, const byte_window& used) {
    if (whole.present() && used.bytes != 0) {
      made_.ranges.push_back({whole.address() + used.offset, used.bytes});
    }
  }

  void add_buffers(const column& of, const referred_rows& referred_rows) {
    const data_type& type = of.type();
    const auto first = static_cast<std::size_t>(of.offset());
    const auto rows = static_cast<std::size_t>(of.length());
    for (std::size_t i = 0; i < type.buffer_count(); ++i) {
      const buffer_spec spec = type.buffer(i);
      const bool bytes = spec.role == buffer_role::bytes;
      add(of.buffers()[i], bytes ? byte_window{static_cast<std::size_t>(referred_rows.rows[0].first),
                                               static_cast<std::size_t>(referred_rows.rows[0].count)}
                                 : bytes_of_rows(spec, first, rows));
    }
    if (!type.has_variadic_buffers()) {
      return;
    }
    const std::int64_t referred = referred_rows.rows[0].count;
    if (counted_ != scattered_rows::all && referred < bytes_behind_views(of)) {
      made_.behind_views += static_cast<std::uint64_t>(referred);
      return;
    }
    for (const buffer& buffer : of.buffers().subspan(type.buffer_count())) {
      add(buffer, {0, buffer.size()});
    }
  }

  static void add_children(const column& of, const referred_rows& referred_rows, std::vector<column>& next) {
    for (std::size_t i = 0; i < of.children().size(); ++i) {
      const child_rows& rows = referred_rows.rows[referred_rows.rows.size() == 1 ? 0 : i];
      if (rows.count != 0) {
        next.push_back(of.children()[i].slice(rows.first, rows.count));
      }
    }
  }

  void add_dictionary(const column& of, std::vector<column>& next) const {
    if (!dictionaries_ || of.dictionary() == nullptr) {
      return;
    }
    const child_rows share = of.share_of(of.dictionary()->length());
    if (share.count != 0) {
      next.push_back(of.dictionary()->slice(share.first, share.count));
    }
  }

  scattered_rows counted_;
  bool dictionaries_;
  row_bytes made_;
};

} // namespace

std::uint64_t row_bytes::total() const {
  std::vector<address_range> sorted = ranges;
  std::ranges::sort(sorted, {}, &address_range::address);
  std::uint64_t sum = behind_views;
  std::uintptr_t counted_to = 0;
  for (const address_range& range : sorted) {
    const std::uintptr_t end = range.address + range.bytes;
    if (end > counted_to) {
      sum += end - std::max(range.address, counted_to);
      counted_to = end;
    }
  }
  return sum;
}

row_bytes bytes_of_columns(std::span<const column> columns, scattered_rows counted, bool dictionaries) {
  std::vector<column> level;
  for (const column& column : columns) {
    if (column.length() != 0 || column.dictionary() != nullptr) {
      level.push_back(column);
    }
  }
  return byte_counter(counted, dictionaries).run(std::move(level));
}

} // namespace saeta
