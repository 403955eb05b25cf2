#include "saeta/transfer/pointed_rows.hpp"

#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>

namespace saeta {

std::vector<child_rows> read_pointed_rows(const std::shared_ptr<context>& ctx,
                                          std::span<const rows_with_offsets> requested) {
  if (requested.empty()) {
    return {};
  }
  std::vector<use> uses;
  for (const rows_with_offsets& each : requested) {
    uses.push_back(reads(each.of->offsets()));
  }
  const use_token token(ctx->work_stream(), uses);
  std::vector<value_request> requests;
  for (const rows_with_offsets& each : requested) {
    const std::size_t width = each.of->type().offset_width();
    const auto* const offsets = token.data<std::byte>(each.of->offsets());
    for (const std::int64_t row : {each.first, each.first + each.rows}) {
      value_request request;
      request.at = offsets + static_cast<std::size_t>(row) * width;
      request.width = static_cast<std::int32_t>(width);
      requests.push_back(request);
    }
  }
  const std::vector<std::int64_t> values = read_values(ctx, requests);
  std::vector<child_rows> pointed;
  for (std::size_t i = 0; i < requested.size(); ++i) {
    pointed.push_back({values[2 * i], values[2 * i + 1] - values[2 * i]});
  }
  return pointed;
}

} // namespace saeta
