#include "saeta/ipc/detail/whole_checks.hpp"

#include "saeta/base/text.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/device/utf8.hpp"
#include "saeta/transfer/host_window.hpp"

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

/// Puts what a check found into words. Numbers come from the source: in the slab some have been changed since.
class explanation {
public:
  explanation(const checked_rows& looked_at, const scatter_check& check, std::int64_t bad_row,
              const scatter_source& source)
      : table_(looked_at.table->pieces), number_(looked_at.node), node_(table_.tree->nodes[number_]),
        check_(check), source_(source) {
    // Rows of run ends are those of their child.
    const std::size_t counted = check.kind == check_kind::run_ends ? number_ + 1 : number_;
    const std::int64_t row = table_.span(looked_at.first, counted).row_base + bad_row;
    piece_ = looked_at.first;
    while (piece_ + 1 < looked_at.end &&
           table_.span(piece_, counted).row_base + table_.span(piece_, counted).rows <= row) {
      ++piece_;
    }
    span_ = &table_.span(piece_, counted);
    row_ = row - span_->row_base;
  }

  [[nodiscard]] error made() {
    return error(errc::format,
                 concat(table_.place(piece_), ": ", table_.tree->label(number_), ": ", reason()));
  }

private:
  std::int64_t number(std::size_t buffer, std::int64_t row, std::int32_t width) {
    const auto bytes = static_cast<std::size_t>(width);
    const auto at = span_->at[buffer] + static_cast<std::uint64_t>(span_->first + row) * bytes;
    return read_offset(source_.read(at, bytes).data(), bytes, 0);
  }

  std::string reason() {
    switch (check_.kind) {
    case check_kind::offsets:
      return concat("offsets fall from ", number(1, row_, check_.width), " to ",
                    number(1, row_ + 1, check_.width), " at row ", row_);
    case check_kind::indices:
      return concat("index ", index(), " at row ", row_, ", the dictionary has ", check_.limit, " entries",
                    check_.limit == 0 ? ", or was not given before" : "");
    case check_kind::list_views:
      return concat("a list of ", number(2, row_, check_.width), " values from ",
                    number(1, row_, check_.width), " at row ", row_, ", its child has ", check_.limit,
                    " rows");
    case check_kind::unions:
      return union_reason();
    case check_kind::views:
      return view_reason();
    case check_kind::run_ends:
      return concat("run ends don't rise: ", number(1, row_, check_.width), " after ",
                    row_ == 0 ? 0 : number(1, row_ - 1, check_.width), " at run ", row_);
    case check_kind::texts: {
      const std::int64_t first = number(1, row_, check_.width);
      return text_reason(span_->at[2] + static_cast<std::uint64_t>(first),
                         number(1, row_ + 1, check_.width) - first);
    }
    case check_kind::text_views:
      return text_view_reason();
    }
    return {};
  }

  std::string text_reason(std::uint64_t at, std::int64_t bytes) {
    const auto text = source_.read(at, static_cast<std::size_t>(bytes));
    const std::int64_t bad = first_not_utf8(reinterpret_cast<const std::uint8_t*>(text.data()), bytes);
    constexpr std::string_view digits = "0123456789abcdef";
    const auto value = bad < bytes ? static_cast<std::size_t>(text[static_cast<std::size_t>(bad)]) : 0;
    return concat("the string at row ", row_, " is not UTF-8: byte 0x", digits.substr(value / 16, 1),
                  digits.substr(value % 16, 1), " at position ", bad, " of ", bytes);
  }

  std::string text_view_reason() {
    constexpr std::int64_t inline_bytes = 12;
    const std::int64_t size = view_word(0);
    if (size <= inline_bytes) {
      return text_reason(view_at() + sizeof(std::int32_t), size);
    }
    const auto& buffers = table_.variadic[piece_];
    return text_reason(buffers[span_->variadic + static_cast<std::size_t>(view_word(2))].at +
                           static_cast<std::uint64_t>(view_word(3)),
                       size);
  }

  [[nodiscard]] std::uint64_t view_at() const noexcept {
    return span_->at[1] + static_cast<std::uint64_t>(span_->first + row_) * 16;
  }

  std::int64_t view_word(std::uint64_t i) {
    return read_offset(source_.read(view_at() + i * sizeof(std::int32_t), sizeof(std::int32_t)).data(),
                       sizeof(std::int32_t), 0);
  }

  /// As the index type shows it.
  std::string index() {
    const std::int64_t found = number(1, row_, check_.width);
    if (node_.type->index_type()->is_signed() || found >= 0) {
      return concat(found);
    }
    const int unused = 64 - 8 * check_.width;
    return concat(static_cast<std::uint64_t>(found) << unused >> unused);
  }

  std::string union_reason() {
    const auto id = static_cast<std::int8_t>(number(0, row_, 1));
    const auto codes = node_.type->type_codes();
    const auto found = std::ranges::find(codes, id);
    if (found == codes.end()) {
      return concat("type id ", +id, " at row ", row_, ", the union has none such");
    }
    const auto child = static_cast<std::size_t>(found - codes.begin());
    std::size_t at = number_ + 1;
    for (std::size_t i = 0; i < child; ++i) {
      at = table_.tree->nodes[at].end;
    }
    return concat("offset ", number(1, row_, sizeof(std::int32_t)), " at row ", row_, ", child '",
                  node_.type->children()[child].name, "' has ", table_.span(piece_, at).rows, " rows");
  }

  std::string view_reason() {
    const std::int64_t size = view_word(0);
    const std::int64_t buffer = view_word(2);
    const std::int64_t offset = view_word(3);
    const bool there = size > 0 && buffer >= 0 && buffer < check_.limit;
    const auto bytes =
        there ? static_cast<std::int64_t>(
                    table_.variadic[piece_][span_->variadic + static_cast<std::size_t>(buffer)].bytes)
              : 0;
    if (there && offset >= 0 && offset + size <= bytes) {
      return concat("the view at row ", row_, " does not begin like its bytes");
    }
    return concat("a view of ", size, " bytes from ", offset, " of buffer ", buffer, " at row ", row_,
                  ", there are ", check_.limit, " buffers",
                  there ? concat(", this one of ", bytes, " bytes") : "");
  }

  const piece_table& table_;
  std::size_t number_;
  const tree_node& node_;
  const scatter_check& check_;
  source_window source_;
  std::size_t piece_ = 0;
  const piece_span* span_ = nullptr;
  std::int64_t row_ = 0; ///< of the piece
};

} // namespace

void require_good(const whole_plan& plan, const scattered& made, const scatter_source& source) {
  for (std::size_t i = 0; i < made.bad_rows.size(); ++i) {
    if (made.bad_rows[i] != no_bad_row) {
      throw explanation(plan.checks()[i], plan.steps().checks[i], made.bad_rows[i], source).made();
    }
  }
}

} // namespace saeta::ipc::detail
