#include "saeta/device/device_id.hpp"

#include "saeta/base/closest.hpp"
#include "saeta/base/text.hpp"

#include <array>
#include <charconv>

namespace saeta {
namespace {

std::string_view kind_name(device_kind kind) {
  switch (kind) {
  case device_kind::cpu:
    return "host";
  case device_kind::cuda:
    return "cuda";
  case device_kind::sim:
    return "sim";
  }
  return "unknown";
}

} // namespace

std::string to_string(device_id id) {
  if (id.kind == device_kind::cpu) {
    return "host";
  }
  return concat(kind_name(id.kind), ":", id.ordinal);
}

device_id parse_device(std::string_view text) {
  const auto colon = text.find(':');
  const auto kind = text.substr(0, colon);
  std::int32_t ordinal = 0;
  if (colon != std::string_view::npos) {
    const auto digits = text.substr(colon + 1);
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    if (failure != std::errc{} || end != digits.data() + digits.size() || ordinal < 0) {
      throw error(errc::invalid_argument,
                  concat("device '", text, "': the ordinal is not a number from 0 on"));
    }
  }
  if ((kind == "host" || kind == "cpu") && ordinal == 0) {
    return {device_kind::cpu, 0};
  }
  if (kind == "cuda") {
    return {device_kind::cuda, ordinal};
  }
  constexpr std::array<std::string_view, 5> known{"host", "cpu", "cuda", "gpu", "nvidia"};
  std::string_view meant = closest(kind, known);
  if (meant == known[3] || meant == known[4]) {
    meant = "cuda";
  }
  throw error(errc::invalid_argument, concat("device '", text, "': expected host, cuda or cuda:N",
                                             meant.empty() ? "" : concat("; did you mean '", meant, "'?")));
}

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
