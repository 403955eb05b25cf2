// Text of log records as CSV fields and JSON strings, and the log file. Private to the sinks.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace saeta {

/// One field as RFC 4180 says: quoted if it contains a comma, a quote or a line end.
[[nodiscard]] std::string csv_field(std::string_view text);
/// A string literal with its quotes, valid for any bytes: bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string json_string(std::string_view text);

/// A file that a sink writes from the start. After a failed append the file can still be used. Not
/// thread-safe.
class log_file {
public:
  /// @throws error io naming the path.
  explicit log_file(std::filesystem::path path);

  void append(std::string_view text);
  void flush();
  /// Writes `closing` at the end of the file for its readers; the next append overwrites it. Files without a
  /// position, such as pipes, are only flushed.
  void suspend(std::string_view closing);

private:
  void require_written();

  std::filesystem::path path_;
  std::ofstream file_;
};

} // namespace saeta
