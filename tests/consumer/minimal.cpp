// The least that a user writes: a context under a budget, and its numbers.
#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/base/version.hpp"
#include "saeta/runtime/runtime.hpp"

#include <exception>
#include <iostream>

int main() {
  try {
    std::cout << "saeta " << saeta::version << '\n';
    for (const saeta::device_entry& entry : saeta::devices()) {
      std::cout << saeta::to_string(entry.id) << ": " << entry.properties.name << ", "
                << saeta::human_bytes(entry.properties.total_bytes) << '\n';
    }
    const auto host = saeta::open_context(saeta::parse_device("host"), std::uint64_t{1} << 20);
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
