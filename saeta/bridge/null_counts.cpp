#include "saeta/base/text.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/device_copy.hpp"

#include <arrow/array/data.h>
#include <arrow/buffer.h>

namespace saeta {

void count_nulls(const arrow::ArrayData& of) {
  for (const auto& child : of.child_data) {
    count_nulls(*child);
  }
  if (of.dictionary != nullptr) {
    count_nulls(*of.dictionary);
  }
  const bool uncounted = of.null_count.load() == arrow::kUnknownNullCount && !of.buffers.empty() &&
                         of.buffers.front() != nullptr && !of.buffers.front()->is_cpu();
  const auto ctx = uncounted ? context_of(*of.buffers.front()->memory_manager()) : nullptr;
  if (ctx == nullptr) {
    return;
  }
  const buffer validity = bytes_of(ctx, of.buffers.front());
  const auto needed = static_cast<std::uint64_t>(of.offset) + static_cast<std::uint64_t>(of.length);
  if (of.offset < 0 || of.length < 0 || needed > validity.size() * 8) {
    throw error(errc::format, concat("an arrow array of ", of.length, " rows from row ", of.offset,
                                     " does not fit its validity buffer of ", validity.size(), " bytes"));
  }
  of.null_count =
      kernel_results(ctx, 1, validity, [&](const use_token& token, std::int64_t* counted) {
        ctx->kernels().count_nulls(token.stream().native_handle(), token.data<std::uint8_t>(validity),
                                   of.offset, of.length, counted);
      }).front();
}

} // namespace saeta
