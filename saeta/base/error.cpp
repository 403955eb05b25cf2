#include "saeta/base/error.hpp"

#include "saeta/base/source_location.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {
namespace {

/// A program may have any number of tags. The refusal lists them all, its message only the largest.
constexpr std::size_t most_tags_in_message = 16;

std::string list(std::string_view label, const budget_refusal::bytes_by_tag& held) {
  std::string text;
  for (std::size_t i = 0; i < std::min(held.size(), most_tags_in_message); ++i) {
    const auto& [tag, bytes] = held[i];
    text += concat(i == 0 ? label : ", ", tag.empty() ? "(untagged)" : tag, " ", bytes);
  }
  if (held.size() > most_tags_in_message) {
    text += concat(" and ", held.size() - most_tags_in_message, " more");
  }
  return text;
}

std::string refusal_message(const budget_refusal& r) {
  const std::string owners = list("; live: ", r.owners) + list("; held by others: ", r.others);
  const std::string kept =
      r.kept == 0 ? "" : concat(" (", r.kept, " of them kept for requests that wait in line)");
  const std::string reserved = r.reserved == 0 ? "" : concat(" + reserved ", r.reserved, kept);
  return concat("budget of ", r.layer, " refused ", r.requested, " bytes (", human_bytes(r.requested),
                "): current ", r.current, reserved, " + requested = ", decimal(r.required), ", limit ",
                r.limit, " (", human_bytes(r.limit), "), remaining ", r.remaining, ", peak ", r.peak, owners);
}

} // namespace

std::string_view name_of(errc code) noexcept {
  switch (code) {
  case errc::invalid_argument:
    return "invalid_argument";
  case errc::type_mismatch:
    return "type_mismatch";
  case errc::unsupported:
    return "unsupported";
  case errc::out_of_range:
    return "out_of_range";
  case errc::overflow:
    return "overflow";
  case errc::budget_exceeded:
    return "budget_exceeded";
  case errc::out_of_memory:
    return "out_of_memory";
  case errc::device:
    return "device";
  case errc::device_lost:
    return "device_lost";
  case errc::format:
    return "format";
  case errc::io:
    return "io";
  case errc::exchange:
    return "exchange";
  case errc::closed:
    return "closed";
  case errc::busy:
    return "busy";
  case errc::download_forbidden:
    return "download_forbidden";
  case errc::column_name:
    return "column_name";
  }
  return "unknown";
}

error::error(errc code, std::string message, source_location where)
    : code_(code), message_(printable(std::move(message))), where_(where) {}

error::error(errc code, std::string message, int error_number, source_location where)
    : code_(code), error_number_(error_number), message_(printable(std::move(message))), where_(where) {}

error::error(budget_refusal refusal, source_location where)
    : code_(errc::budget_exceeded), message_(printable(refusal_message(refusal))), where_(where),
      refusal_(std::make_shared<const budget_refusal>(std::move(refusal))) {}

} // namespace saeta
