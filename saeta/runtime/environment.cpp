#include "saeta/runtime/environment.hpp"

#include "saeta/base/pages.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace saeta {
namespace {

constexpr const char* budget_name = "SAETA_BUDGET";
constexpr const char* resource_name = "SAETA_RESOURCE";
constexpr const char* stack_name = "SAETA_STACK";
constexpr const char* guard_name = "SAETA_GUARD";
constexpr const char* threshold_name = "SAETA_POOL_THRESHOLD";
constexpr const char* wait_name = "SAETA_BUDGET_WAIT";
constexpr const char* log_name = "SAETA_LOG";
constexpr const char* record_name = "SAETA_RECORD";
constexpr const char* threads_name = "SAETA_STAGING_THREADS";
constexpr const char* pinned_name = "SAETA_STAGING_PINNED";
constexpr const char* cache_name = "SAETA_HOST_CACHE";

constexpr const char* spill_folder_name = "SAETA_SPILL_DIR";
constexpr const char* spill_pinned_name = "SAETA_SPILL_PINNED";
constexpr const char* spill_pageable_name = "SAETA_SPILL_PAGEABLE";
constexpr const char* spill_files_name = "SAETA_SPILL_FILES";
constexpr const char* spill_compress_name = "SAETA_SPILL_COMPRESS";

constexpr std::size_t most_threads = 256;
constexpr std::size_t most_records = 1u << 24;
constexpr std::uint64_t longest_wait = 86'400'000; // a day, in milliseconds
constexpr std::uint64_t least_pinned = 1u << 20;

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
  if (text == "caching") {
    return resource_kind::caching;
  }
  if (text == "async") {
    return resource_kind::async;
  }
  if (text == "direct") {
    return resource_kind::direct;
  }
  refuse(resource_name, text, "expected caching, async or direct");
}

void read_stack(std::string_view text, stack_options& into) {
  try {
    parse_stack(text, into);
  } catch (const error& e) {
    refuse(stack_name, text, e.message());
  }
}

void read_guard(std::string_view text, stack_options& into) {
  into.guard.quarantine = bytes_of(guard_name, text, 0);
  auto& layers = into.layers;
  if (std::find(layers.begin(), layers.end(), decorator_kind::guard) == layers.end()) {
    layers.push_back(decorator_kind::guard); // below the budget, which does not see what the guard adds
  }
}

std::uint64_t number_of(std::string_view name, std::string_view text, std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), text_end, number);
  if (failure != std::errc{} || end != text_end || number > most) {
    refuse(name, text, concat("expected a whole number from 0 to ", most));
  }
  return number;
}

std::vector<std::string> sinks_of(std::string_view text) {
  std::vector<std::string> sinks;
  std::istringstream parts{std::string(text)};
  for (std::string one; std::getline(parts, one, ';');) {
    const bool known = one.starts_with("csv:") || one.starts_with("jsonl:") || one.starts_with("trace:");
    if (!known || one.find(':') + 1 == one.size()) { // a path is missing
      refuse(log_name, text, "expected csv:PATH, jsonl:PATH or trace:PATH");
    }
    sinks.push_back(one);
  }
  return sinks;
}

std::uint64_t pinned_of(std::string_view text) {
  const std::uint64_t bytes = bytes_of(pinned_name, text, 0);
  if (bytes < least_pinned) {
    refuse(pinned_name, text, concat("expected at least ", human_bytes(least_pinned)));
  }
  return bytes;
}

} // namespace

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
    options.memory.base = resource_of(*text);
  }
  if (const auto text = text_of(stack_name)) {
    read_stack(*text, options.memory);
  }
  if (const auto text = text_of(guard_name)) {
    read_guard(*text, options.memory);
  }
  if (const auto text = text_of(threshold_name)) {
    options.memory.pool_threshold = bytes_of(threshold_name, *text, device_bytes);
  }
  if (const auto text = text_of(wait_name)) {
    options.wait = std::chrono::milliseconds(number_of(wait_name, *text, longest_wait));
  }
  if (const auto text = text_of(log_name)) {
    options.log = sinks_of(*text);
  }
  if (const auto text = text_of(record_name)) {
    options.recorded = number_of(record_name, *text, most_records);
  }
  if (const auto text = text_of(threads_name)) {
    options.staging.threads = number_of(threads_name, *text, most_threads);
  }
  if (const auto text = text_of(pinned_name)) {
    options.staging.pinned_bytes = pinned_of(*text);
  }
  if (const auto text = text_of(cache_name)) {
    options.host_cache = bytes_of(cache_name, *text, machine_bytes());
  }
  if (const auto text = text_of(spill_folder_name)) {
    options.spill.folder = std::filesystem::absolute(*text).string(); // the program may change its folder
  }
  if (const auto text = text_of(spill_pinned_name)) {
    options.spill.pinned = bytes_of(spill_pinned_name, *text, machine_bytes());
  }
  if (const auto text = text_of(spill_pageable_name)) {
    options.spill.pageable = bytes_of(spill_pageable_name, *text, machine_bytes());
  }
  if (const auto text = text_of(spill_files_name)) {
    options.spill.files = bytes_of(spill_files_name, *text, 0);
  }
  if (const auto text = text_of(spill_compress_name)) {
    options.spill.compress = number_of(spill_compress_name, *text, 1) != 0;
  }
  return options;
}

} // namespace saeta
