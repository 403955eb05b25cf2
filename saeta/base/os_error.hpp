// Errors of the operating system. They carry the errno, which Python shows as `FileError.errno`.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/source_location.hpp"
#include "saeta/base/text.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>

namespace SAETA_EXPORT saeta {

/// Returns an error io: "reading 8 bytes at file offset 16: Input/output error (errno 5)".
[[nodiscard]] inline error os_error(std::string_view what, int number,
                                    source_location where = source_location::current()) {
  return {errc::io, concat(what, ": ", std::generic_category().message(number), " (errno ", number, ")"),
          number, where};
}

/// Returns an error io: "can't open '/data/x.arrow': No such file or directory (errno 2)".
[[nodiscard]] inline error os_error(std::string_view action, const std::filesystem::path& file, int number,
                                    source_location where = source_location::current()) {
  return os_error(concat("can't ", action, " '", file.string(), "'"), number, where);
}

} // namespace saeta
