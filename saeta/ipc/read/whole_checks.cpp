#include "saeta/base/text.hpp"
#include "saeta/column/value_reason.hpp"
#include "saeta/ipc/read/whole_plan.hpp"
#include "saeta/transfer/host_array.hpp"

namespace saeta::ipc::detail {
namespace {

/// The values of the piece with the bad row. They are read from the source, because fixes have changed some
/// in the slab.
class values_of_piece final : public checked_values {
public:
  values_of_piece(const checked_rows& looked_at, const scatter_check& check, std::int64_t bad_row,
                  const scatter_source& source)
      : table_(looked_at.table->pieces), node_(looked_at.node), check_(check), source_(source),
        piece_(looked_at.first) {
    // A check of run ends counts rows of the run ends child.
    const std::size_t counted = check.kind == check_kind::run_ends ? node_ + 1 : node_;
    const std::int64_t row = table_.span(piece_, counted).row_base + bad_row;
    while (piece_ + 1 < looked_at.end &&
           table_.span(piece_, counted).row_base + table_.span(piece_, counted).rows <= row) {
      ++piece_;
    }
    span_ = &table_.span(piece_, counted);
    type_ = table_.tree->nodes[counted].type;
    row_ = row - span_->row_base;
  }

  [[nodiscard]] error found_wrong() {
    const failed_check failed{check_.kind, check_.width, check_.limit, row_};
    const bool no_entries = check_.kind == check_kind::indices && check_.limit == 0;
    return error(errc::format, concat(table_.place(piece_), ": ", table_.tree->label(node_), ": ",
                                      reason_of(*table_.tree->nodes[node_].type, failed, *this),
                                      no_entries ? ", or was not sent before" : ""));
  }

  std::int64_t number(std::size_t buffer, std::int64_t row, std::int32_t width) override {
    const auto bytes = static_cast<std::size_t>(width);
    return read_offset(source_.read(byte_of(buffer, row * width), bytes).data(), bytes, 0);
  }
  std::int64_t child_rows(std::size_t child) override {
    std::size_t at = node_ + 1;
    for (std::size_t i = 0; i < child; ++i) {
      at = table_.tree->nodes[at].end;
    }
    return table_.span(piece_, at).rows;
  }
  std::int64_t variadic_bytes(std::size_t buffer) override {
    return static_cast<std::int64_t>(variadic(buffer).bytes);
  }
  std::span<const std::byte> text(std::int64_t row) override {
    if (check_.kind == check_kind::texts) {
      const std::int64_t first = number(1, row, check_.width);
      const std::int64_t end = number(1, row + 1, check_.width);
      return source_.read(span_->at[2] + static_cast<std::uint64_t>(first),
                          static_cast<std::size_t>(end - first));
    }
    constexpr std::int64_t inline_bytes = 12;
    constexpr std::int32_t word = sizeof(std::int32_t);
    const std::int64_t size = number(1, 4 * row, word);
    const std::uint64_t at = size <= inline_bytes
                                 ? byte_of(1, (4 * row + 1) * word)
                                 : variadic(static_cast<std::size_t>(number(1, 4 * row + 2, word))).at +
                                       static_cast<std::uint64_t>(number(1, 4 * row + 3, word));
    return source_.read(at, static_cast<std::size_t>(size));
  }

private:
  /// @param byte  counted from the first row
  [[nodiscard]] std::uint64_t byte_of(std::size_t buffer, std::int64_t byte) const {
    return span_->at[buffer] + static_cast<std::uint64_t>(span_->first * type_->buffer(buffer).width + byte);
  }
  [[nodiscard]] const variadic_buffer& variadic(std::size_t buffer) const {
    return table_.variadic[piece_][span_->variadic + buffer];
  }

  const piece_table& table_;
  std::size_t node_;
  const scatter_check& check_;
  source_window source_;
  std::size_t piece_;
  const piece_span* span_ = nullptr; ///< of the node that has the values
  const data_type* type_ = nullptr;  ///< of that node
  std::int64_t row_ = 0;             ///< the bad row, counted in the piece
};

} // namespace

void require_good(const whole_plan& plan, const scattered& made, const scatter_source& source) {
  for (std::size_t i = 0; i < made.bad_rows.size(); ++i) {
    if (made.bad_rows[i] != no_bad_row) {
      throw values_of_piece(plan.checks()[i], plan.steps().checks[i], made.bad_rows[i], source).found_wrong();
    }
  }
}

} // namespace saeta::ipc::detail
