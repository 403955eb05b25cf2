// Errors of the operating system. They carry the errno, which Python shows as `FileError.errno`.
#pragma once

#include "saeta/base/text.hpp"

#include <filesystem>
#include <source_location>
#include <string_view>
#include <system_error>

namespace saeta {

/// Returns an error io: "reading 8 bytes at file offset 16: Input/output error (errno 5)".
[[nodiscard]] inline error os_error(std::string_view what, int number,
                                    std::source_location where = std::source_location::current()) {
  return {errc::io, concat(what, ": ", std::generic_category().message(number), " (errno ", number, ")"),
          number, where};
}

/// Returns an error io: "can't open '/data/x.arrow': No such file or directory (errno 2)".
[[nodiscard]] inline error os_error(std::string_view action, const std::filesystem::path& file, int number,
                                    std::source_location where = std::source_location::current()) {
  return os_error(concat("can't ", action, " '", file.string(), "'"), number, where);
}

} // namespace saeta
