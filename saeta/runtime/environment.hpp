// Reads the environment variables of Saeta (docs/options.md) into typed options.
//
// What      Defaults for options that the caller does not set in code. Explicit arguments override the
//           environment. An empty variable counts as not set.
// Thread    Any, as long as no thread changes the environment at the same time.
// Failure   error invalid_argument naming the variable, its text and what was expected.
#pragma once

#include "saeta/memory/context.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace saeta {

struct environment_options {
  std::uint64_t budget = budget::unlimited; ///< bytes
  stack_options memory;
  std::chrono::milliseconds wait{0}; ///< how long a request waits for room in the budget
  std::vector<std::string> log;      ///< sinks in the syntax of make_sink
  std::size_t recorded = 0;          ///< memory events kept from the start
  staging_options staging;
  std::optional<std::uint64_t> host_cache; ///< bytes kept for later downloads
  spill_options spill;
};

/// Like std::getenv: returns null for a variable that is not set.
using environment_lookup = const char* (*)(const char* name);

/// @param device_bytes  memory of the device that a budget in percent refers to.
/// @param lookup        null reads the environment of the process.
environment_options read_environment(std::uint64_t device_bytes, environment_lookup lookup = nullptr);

} // namespace saeta
