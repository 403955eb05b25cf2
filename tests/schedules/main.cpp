// Runs random programs on the simulated device, one a seed, and prints the first that goes wrong.
//
//   saeta_schedules [--first SEED] [--count N] [--steps N]
//
// Exit code 0 when all were clean, 1 otherwise. A failing seed is replayed with --first SEED --count 1.
#include "schedules/program.hpp"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  std::uint64_t first = 0;
  std::uint64_t count = 1000;
  unsigned steps = 120;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) {
      std::cerr << name << " needs a value\n";
      return 2;
    }
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--first") {
      first = value;
    } else if (name == "--count") {
      count = value;
    } else if (name == "--steps") {
      steps = static_cast<unsigned>(value);
    } else {
      std::cerr << "unknown option " << name << "\n";
      return 2;
    }
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const saeta::schedules::outcome result = saeta::schedules::run_program(seed, steps);
    if (!result.clean) {
      std::cout << result.report << "\nseed " << seed << " of " << first << " to " << first + count - 1
                << " failed\n";
      return 1;
    }
  }
  std::cout << count << " programs of " << steps << " steps are clean, seeds " << first << " to "
            << first + count - 1 << "\n";
  return 0;
}
