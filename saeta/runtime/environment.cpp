#include "saeta/runtime/environment.hpp"

#include "saeta/base/text.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>

namespace saeta {
namespace {

constexpr const char* budget_name = "SAETA_BUDGET";
constexpr const char* resource_name = "SAETA_RESOURCE";
constexpr const char* threads_name = "SAETA_STAGING_THREADS";
constexpr const char* chunk_name = "SAETA_STAGING_CHUNK";

constexpr std::array<environment_variable, 4> table{{
    {budget_name, "bytes like 8GiB, or a share of the device's memory like 50%",
     "limit of each device's budget", "none"},
    {resource_name, "async or direct", "where memory comes from: the driver's pool, or one driver call each",
     "async"},
    {threads_name, "0 to 256", "threads of the staging ring; 0 asks for the machine's", "0"},
    {chunk_name, "64KiB to 1GiB", "size of one page-locked chunk of the staging ring", "4MiB"},
}};

constexpr std::size_t most_threads = 256;
constexpr std::uint64_t least_chunk = 64u << 10;
constexpr std::uint64_t largest_chunk = 1u << 30;

[[noreturn]] void refuse(std::string_view name, std::string_view text, std::string_view why) {
  throw error(errc::invalid_argument, concat("environment variable ", name, "='", text, "': ", why));
}

std::uint64_t bytes_of(std::string_view name, std::string_view text, std::uint64_t whole) {
  try {
    return parse_bytes(text, whole);
  } catch (const error& e) {
    refuse(name, text, e.message());
  }
}

resource_kind resource_of(std::string_view text) {
  if (text == "async") {
    return resource_kind::async;
  }
  if (text == "direct") {
    return resource_kind::direct;
  }
  refuse(resource_name, text, "expected async or direct");
}

std::size_t threads_of(std::string_view text) {
  std::size_t threads = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (failure != std::errc{} || end != text.data() + text.size() || threads > most_threads) {
    refuse(threads_name, text, concat("expected a whole number from 0 to ", most_threads));
  }
  return threads;
}

std::size_t chunk_of(std::string_view text) {
  const std::uint64_t bytes = bytes_of(chunk_name, text, 0);
  if (bytes < least_chunk || bytes > largest_chunk) {
    refuse(chunk_name, text,
           concat("expected ", human_bytes(least_chunk), " to ", human_bytes(largest_chunk)));
  }
  return bytes;
}

} // namespace

std::span<const environment_variable> environment_variables() noexcept { return table; }

environment_options read_environment(std::uint64_t device_bytes, environment_lookup lookup) {
  const auto text_of = [&](const char* name) -> std::optional<std::string> {
    const char* const text = lookup == nullptr ? std::getenv(name) : lookup(name);
    return text == nullptr || *text == '\0' ? std::nullopt : std::optional<std::string>(text);
  };
  environment_options options;
  if (const auto text = text_of(budget_name)) {
    options.budget = bytes_of(budget_name, *text, device_bytes);
  }
  if (const auto text = text_of(resource_name)) {
    options.resource = resource_of(*text);
  }
  if (const auto text = text_of(threads_name)) {
    options.staging_threads = threads_of(*text);
  }
  if (const auto text = text_of(chunk_name)) {
    options.staging_chunk = chunk_of(*text);
  }
  return options;
}

} // namespace saeta
