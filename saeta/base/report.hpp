// Where failures go that can't be thrown: destructors, C callbacks, background threads.
//
// The sink is process-wide, called from any thread and must not throw. The default writes one line to standard error.
#pragma once

#include <string_view>

namespace saeta {

using report_sink = void (*)(std::string_view where, std::string_view message) noexcept;

/// Replaces the sink; null restores the default. Returns the previous one.
report_sink set_report_sink(report_sink sink) noexcept;

void report(std::string_view where, std::string_view message) noexcept;

/// Reports the exception being handled. Call only inside a catch block.
void report_current_exception(std::string_view where) noexcept;

} // namespace saeta
