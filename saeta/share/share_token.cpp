#include "saeta/share/share_token.hpp"

#include "saeta/base/os_error.hpp"
#include "saeta/base/process.hpp"
#include "saeta/share/broker.hpp"
#include "saeta/share/descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <type_traits>

#include <fcntl.h>
#include <unistd.h>

namespace saeta {
namespace {

/// What a token begins with. Numbers are little-endian, as on every machine that the library runs on.
constexpr std::string_view magic = "SAETATKN";
constexpr std::uint16_t version = 1;
constexpr std::uint8_t on_device = 1;
constexpr std::uint8_t is_posted = 2;

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

[[noreturn]] void refuse(std::string_view why) {
  throw error(errc::format, concat("the token of a shared table is broken: ", why));
}

template <class T>
T take(std::span<const std::byte>& from) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (from.size() < sizeof(T)) {
    refuse("its end is missing");
  }
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  from = from.subspan(sizeof(T));
  return value;
}

bool is_digit(char each) noexcept { return each >= '0' && each <= '9'; }
bool is_hexadecimal(char each) noexcept { return is_digit(each) || (each >= 'a' && each <= 'f'); }

/// The text of the file has 32 hexadecimal digits and some dashes.
share_token::id parse_machine_id(std::string_view text) {
  share_token::id found{};
  std::size_t digits = 0;
  for (const char each : text) {
    if (is_hexadecimal(each) && digits < 2 * found.size()) {
      const int value = is_digit(each) ? each - '0' : each - 'a' + 10;
      found[digits / 2] = static_cast<std::byte>((std::to_integer<int>(found[digits / 2]) << 4) | value);
      ++digits;
    }
  }
  return found;
}

share_token::id read_machine_id(const std::string& file) {
  const auto fail = [&](int number) {
    throw os_error(concat(file, ", by which processes of one machine know each other, can't be read"),
                   number);
  };
  const descriptor opened = descriptor::opened([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC); });
  if (!opened.is_open()) {
    fail(errno);
  }
  std::array<char, 64> text{};
  const auto bytes = ::read(opened.number(), text.data(), text.size());
  if (bytes < 0) {
    fail(errno);
  }
  return parse_machine_id({text.data(), static_cast<std::size_t>(bytes)});
}

} // namespace

std::vector<std::byte> share_token::to_bytes() const {
  std::vector<std::byte> bytes;
  for (const char each : magic) {
    append(bytes, each);
  }
  append(bytes, version);
  append(bytes, static_cast<std::uint8_t>((device ? on_device : 0) | (posted ? is_posted : 0)));
  append(bytes, machine);
  append(bytes, key);
  append(bytes, device.value_or(id{}));
  append(bytes, nbytes);
  for (const char each : broker) {
    append(bytes, each);
  }
  return bytes;
}

share_token share_token::from_bytes(std::span<const std::byte> bytes) {
  for (const char each : magic) {
    if (take<char>(bytes) != each) {
      refuse(concat("it does not begin with ", magic));
    }
  }
  if (const auto found = take<std::uint16_t>(bytes); found != version) {
    refuse(concat("it is of version ", found, ", and this process knows version ", version));
  }
  const auto flags = take<std::uint8_t>(bytes);
  if ((flags & ~(on_device | is_posted)) != 0) {
    refuse("its flags are not ones that share makes");
  }
  share_token token;
  token.posted = (flags & is_posted) != 0;
  token.machine = take<id>(bytes);
  token.key = take<id>(bytes);
  const id device = take<id>(bytes);
  if ((flags & on_device) != 0) {
    token.device = device;
  }
  token.nbytes = take<std::uint64_t>(bytes);
  token.broker.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_broker_name(token.broker)) {
    refuse("its broker is not one that share makes");
  }
  return token;
}

bool is_broker_name(std::string_view name) noexcept {
  constexpr std::string_view start = "saeta-";
  constexpr std::size_t digits = 32;
  if (!name.starts_with(start)) {
    return false;
  }
  name.remove_prefix(start.size());
  const std::size_t dash = name.find('-');
  return dash != std::string_view::npos && dash >= 1 && dash <= 10 && name.size() == dash + 1 + digits &&
         std::ranges::all_of(name.substr(0, dash), is_digit) &&
         std::ranges::all_of(name.substr(dash + 1), is_hexadecimal);
}

share_token::id machine_id() {
  struct last_one {
    std::mutex mutex;
    const share_limits* from = nullptr;
    share_token::id found{};
  };
  static per_process<last_one> cache;
  last_one& last = cache.get();
  const share_limits& limits = current_share_limits();
  const std::lock_guard lock(last.mutex);
  if (last.from != &limits) {
    last.found = read_machine_id(limits.machine_id);
    last.from = &limits;
  }
  return last.found;
}

} // namespace saeta
