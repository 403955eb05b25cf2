// Text of log records as CSV fields and JSON strings, and the file that takes it. Private to the sinks.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace saeta {

/// One field as RFC 4180 says: quoted where it holds a comma, a quote or a line end.
[[nodiscard]] std::string csv_field(std::string_view text);
/// A string literal with its quotes, valid for any bytes: those that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string json_string(std::string_view text);

/// A file that a sink writes from its beginning. An append that failed leaves the file usable for the next.
/// Not safe for several threads.
class log_file {
public:
  /// @throws error io naming the path.
  explicit log_file(std::filesystem::path path);

  void append(std::string_view text);
  void flush();
  /// Makes `closing` the end of the file for its readers, without moving on: the next append replaces it. Without
  /// effect on files that have no position, such as pipes.
  void close_for_now(std::string_view closing);

private:
  void require_written();

  std::filesystem::path path_;
  std::ofstream file_;
};

} // namespace saeta
