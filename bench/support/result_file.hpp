// Result files in JSON: benchmark, command, commit, machine and versions, then the measured numbers.
#pragma once

#include "saeta/device/device_id.hpp"
#include "support/command_line.hpp"
#include "support/json.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::bench {

/// Versions of libraries by name, including those of peers.
using version_map = std::map<std::string, std::string>;

/// Returns the members that every result file begins with.
[[nodiscard]] json_object describe_run(std::string_view benchmark, const run_options& run, device_id measured,
                                       const version_map& versions = {});

/// Adds the number of samples and their p10, p50, p90 and p99.
void add_quantiles(json_object& to, const std::vector<double>& nanoseconds);

/// Writes the file that `--out` names; does nothing without `--out`. @throws error io naming the file
void write_result(const run_options& run, const json_object& result);

} // namespace saeta::bench
