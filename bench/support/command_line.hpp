// Reads the options of a benchmark from its command line: `--name value`. Defaults are set by the program.
//
//   command_line line(count, arguments);
//   line.read("--rounds", rounds);      // changed only when the option was given
//   line.finish();                      // throws for unknown options
//
// Failure   error invalid_argument naming the option, the text and what was expected.
#pragma once

#include "saeta/base/text.hpp"

#include <cstddef>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::bench {

class command_line {
public:
  command_line(int count, char** arguments);

  /// Returns the whole command line, for the result file.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  void read(std::string_view name, std::string& into);
  void read(std::string_view name, std::filesystem::path& into);
  /// Reads numbers that are separated by commas.
  void read(std::string_view name, std::vector<std::size_t>& into);
  template <class Number>
  void read(std::string_view name, Number& into) {
    if (const std::string* value = take(name)) {
      into = parse<Number>(name, *value);
    }
  }
  void finish() const;

private:
  struct option {
    std::string name;
    std::string value;
    bool read = false;
  };

  template <class Number>
  static Number parse(std::string_view name, const std::string& text) {
    std::istringstream in(text);
    Number value{};
    // operator>> would accept a minus sign and wrap the number around.
    if (text.find('-') != std::string::npos || !(in >> value) || !in.eof()) {
      throw error(errc::invalid_argument,
                  concat("option ", name, ": '", text, "' is no number that fits here"));
    }
    return value;
  }
  const std::string* take(std::string_view name);

  std::string text_;
  std::vector<option> given_;
  std::string known_;
};

/// Returns a folder that keeps files in memory (tmpfs), or the folder for temporary files.
[[nodiscard]] std::filesystem::path memory_folder();

/// The options of every benchmark: --out FILE.json and --commit TEXT.
struct run_options {
  std::string out;
  std::string commit = "unknown";
  std::string command;
};

[[nodiscard]] run_options read_run_options(command_line& line);

} // namespace saeta::bench
