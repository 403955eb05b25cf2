// Converts an errno to an error of Saeta.
#pragma once

#include "saeta/base/text.hpp"

#include <filesystem>
#include <source_location>
#include <string_view>
#include <system_error>

namespace saeta::ipc::detail {

/// Returns an error io: "can't open '/data/x.arrow': No such file or directory (errno 2)".
inline error os_error(std::string_view action, const std::filesystem::path& file, int number,
                      std::source_location where = std::source_location::current()) {
  return {errc::io,
          concat("can't ", action, " '", file.string(), "': ", std::generic_category().message(number),
                 " (errno ", number, ")"),
          where};
}

} // namespace saeta::ipc::detail
