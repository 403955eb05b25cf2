#include "saeta/ipc/detail/source.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/detail/mapped_file.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iomanip>
#include <string_view>

namespace saeta::ipc::detail {
namespace {

constexpr std::string_view magic = "ARROW1";
constexpr std::uint32_t continuation =
    0xFFFFFFFF; ///< before the length of a message, since format version 0.15

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::ostringstream out;
  for (const auto byte : bytes) {
    out << (out.tellp() > 0 ? " " : "") << std::hex << std::setw(2) << std::setfill('0')
        << std::to_integer<unsigned>(byte);
  }
  return std::move(out).str();
}

bool begins_with_message(std::span<const std::byte> bytes) {
  std::uint32_t first = 0;
  if (bytes.size() < sizeof(first)) {
    return false;
  }
  std::memcpy(&first, bytes.data(), sizeof(first));
  // Older streams begin with the length itself.
  return first == continuation || (first > 0 && first <= bytes.size() - sizeof(first));
}

} // namespace

bool source::contains(const void* data, std::size_t size) const noexcept {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::less_equal<> before;
  return size == 0 || (before(bytes.data(), first) && before(first, bytes.data() + bytes.size()) &&
                       size <= static_cast<std::size_t>(bytes.data() + bytes.size() - first));
}

file_region source::region() const noexcept {
  return descriptor < 0 ? file_region{} : file_region{bytes.data(), bytes.size(), descriptor, 0};
}

source open_source(const std::filesystem::path& file) {
  auto mapped = mapped_file::open(file);
  const auto bytes = mapped->bytes();
  const int descriptor = mapped->descriptor();
  return {file.string(), bytes, std::move(mapped), descriptor};
}

container recognise(const source& from) {
  const auto text = text_of(from.bytes);
  if (text.empty()) {
    throw error(errc::format, concat(from.name, ": no Arrow file or stream: it is empty"));
  }
  if (text.starts_with(magic)) {
    if (text.size() < 2 * magic.size() || !text.ends_with(magic)) {
      throw error(errc::format, concat(from.name, ": truncated: ", text.size(),
                                       " bytes begin as an Arrow file but do not end with ", magic));
    }
    return container::file;
  }
  if (begins_with_message(from.bytes)) {
    return container::stream;
  }
  throw error(errc::format,
              concat(from.name, ": no Arrow file or stream: expected ", magic,
                     " or a message, found the bytes ",
                     hexadecimal(from.bytes.first(std::min<std::size_t>(from.bytes.size(), 8)))));
}

} // namespace saeta::ipc::detail
