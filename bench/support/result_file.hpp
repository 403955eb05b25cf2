// The file of a result: what was run, where and with which versions, then the numbers.
#pragma once

#include "saeta/device/device_id.hpp"
#include "support/command_line.hpp"
#include "support/json.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::bench {

/// Versions of libraries by name, those of peers too.
using version_map = std::map<std::string, std::string>;

/// What every file begins with.
[[nodiscard]] json_object describe_run(std::string_view benchmark, const run_options& run, device_id measured,
                                       const version_map& versions = {});

/// Members for samples in nanoseconds: their number, p10, p50, p90 and p99.
void add_quantiles(json_object& to, const std::vector<double>& nanoseconds);

/// Nothing without `--out`. @throws error io naming the file.
void write_result(const run_options& run, const json_object& result);

} // namespace saeta::bench
