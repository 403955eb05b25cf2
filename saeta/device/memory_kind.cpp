#include "saeta/device/memory_kind.hpp"

#include "saeta/base/text.hpp"

#include <array>

namespace saeta {
namespace {

constexpr std::array<std::string_view, 4> names{"device", "managed", "pinned", "host"};

} // namespace

std::string_view to_string(memory_kind kind) noexcept { return names[static_cast<std::size_t>(kind)]; }

memory_kind parse_memory_kind(std::string_view text) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) {
      return static_cast<memory_kind>(i);
    }
  }
  throw error(errc::invalid_argument,
              concat("memory kind '", text, "': expected device, managed, pinned or host"));
}

} // namespace saeta
