// Reports failures that can't be thrown: in destructors, C callbacks and background threads.
//
// The sink is process-wide. Any thread may call it. It must not throw. The default writes a line to stderr.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/text.hpp"

#include <string_view>

namespace SAETA_EXPORT saeta {

using report_sink = void (*)(std::string_view where, std::string_view message) noexcept;

/// Replaces the sink; null restores the default. Returns the previous one.
report_sink set_report_sink(report_sink sink) noexcept;

void report(std::string_view where, std::string_view message) noexcept;

/// Reports the exception being handled. Call only inside a catch block.
void report_current_exception(std::string_view where) noexcept;

/// Calls `use` with the joined parts, or with `otherwise` if there is no memory for them. The failure that is
/// reported may be a lack of memory.
template <class Use, class... Parts>
void with_report_text(const Use& use, std::string_view otherwise, const Parts&... parts) noexcept {
  std::string whole;
  try {
    whole = concat(parts...);
  } catch (...) {
    return use(otherwise);
  }
  use(whole);
}

} // namespace saeta
