// Runs random programs on simulated devices, one for each seed, and prints the first that fails.
//
//   saeta_schedules [--first-seed SEED] [--count N] [--steps N] [--captures] [--spill] [--devices 1|2]
//                   [--faults PERCENT]
//
// The exit code is 0 if all programs passed, 1 if one failed, 2 for a wrong command line. To reproduce a
// failure, repeat the options with --first-seed SEED --count 1. schedules/program.hpp explains them.
#include "saeta/base/report.hpp"
#include "schedules/program.hpp"

#include <charconv>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string_view>

namespace {

struct command_line {
  std::uint64_t first = 0;
  std::uint64_t count = 1000;
  saeta::schedules::program_options programs;
};

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Sets a numeric option. Returns false for an unknown name or a value out of range.
bool set(command_line& chosen, std::string_view name, std::uint64_t value) {
  if (name == "--first-seed") {
    chosen.first = value;
  } else if (name == "--count") {
    chosen.count = value;
  } else if (name == "--steps" && value <= UINT32_MAX) {
    chosen.programs.steps = static_cast<unsigned>(value);
  } else if (name == "--devices" && (value == 1 || value == 2)) {
    chosen.programs.devices = static_cast<unsigned>(value);
  } else if (name == "--faults" && value <= 100) {
    chosen.programs.fail_percent = static_cast<unsigned>(value);
  } else {
    return false;
  }
  return true;
}

std::optional<command_line> read(int argc, char** argv) {
  command_line chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--captures") {
      chosen.programs.captures = true;
      continue;
    }
    if (name == "--spill") {
      chosen.programs.spills = true;
      continue;
    }
    const auto value = ++i < argc ? number_in(argv[i]) : std::nullopt;
    if (!value || !set(chosen, name, *value)) {
      std::cerr << name << (i < argc ? " " : "") << (i < argc ? argv[i] : "") << " is not an option\n";
      return std::nullopt;
    }
  }
  return chosen;
}

} // namespace

int main(int argc, char** argv) {
  const auto chosen = read(argc, argv);
  if (!chosen) {
    return 2;
  }
  if (chosen->programs.fail_percent != 0) { // noexcept functions would print thousands of reports
    saeta::set_report_sink([](std::string_view, std::string_view) noexcept {});
  }
  const std::uint64_t last = chosen->first + chosen->count - 1;
  for (std::uint64_t seed = chosen->first; seed != last + 1; ++seed) {
    const saeta::schedules::outcome result = saeta::schedules::run_program(seed, chosen->programs);
    if (!result.clean) {
      std::cout << result.report << "\nseed " << seed << " of " << chosen->first << " to " << last
                << " failed\n";
      return 1;
    }
  }
  std::cout << chosen->count << " programs of " << chosen->programs.steps << " steps are clean, seeds "
            << chosen->first << " to " << last << "\n";
  return 0;
}
