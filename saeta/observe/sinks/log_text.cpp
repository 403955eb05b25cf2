#include "saeta/observe/sinks/log_text.hpp"

#include "saeta/base/os_error.hpp"

#include <array>
#include <cerrno>
#include <cstdint>

namespace saeta {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD"; // U+FFFD

void append_ascii(std::string& out, char character) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto value = static_cast<std::uint8_t>(character);
  if (character == '"' || character == '\\') {
    out += '\\';
    out += character;
  } else if (value < 0x20 || value == 0x7F) {
    out += "\\u00";
    out += digits[value >> 4u];
    out += digits[value & 15u];
  } else {
    out += character;
  }
}

/// `number` is 0 if the stream failed without a call of the system.
error write_failure(const std::filesystem::path& path, int number) {
  const std::string what = concat("can't write the log ", path.string());
  return number != 0 ? os_error(what, number) : error(errc::io, what);
}

} // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char character : text) {
    quoted.append(character == '"' ? 2 : 1, character);
  }
  return quoted + '"';
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 1) {
      append_ascii(out, text.front());
    } else {
      out += length == 0 ? replacement : text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

log_file::log_file(std::filesystem::path path) : path_(std::move(path)) {
  errno = 0;
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) {
    throw write_failure(path_, errno);
  }
}

void log_file::append(std::string_view text) {
  errno = 0;
  file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  require_written();
}

void log_file::flush() {
  errno = 0;
  file_.flush();
  require_written();
}

void log_file::suspend(std::string_view closing) {
  const std::ofstream::pos_type end = file_.tellp();
  if (end == std::ofstream::pos_type(-1)) {
    file_.clear();
    flush();
    return;
  }
  append(closing);
  flush();
  file_.seekp(end);
  require_written();
}

void log_file::require_written() {
  if (!file_) {
    const int why = errno;
    file_.clear();
    throw write_failure(path_, why);
  }
}

} // namespace saeta
