// The names of tags (observe/tag.hpp): one copy of each, bounded.
//
// Thread    Any; names are spread over several locks by their hash.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace saeta {

class name_table {
public:
  /// @param most_bytes  of text, all names together
  name_table(std::size_t most_names, std::size_t most_bytes);

  /// Returns the kept copy of the name, valid as long as the table. Returns "(other)" for a new name that
  /// does not fit.
  const std::string* keep(std::string_view name);

private:
  struct alignas(64) shard {
    std::mutex mutex;
    std::unordered_map<std::string_view, std::unique_ptr<const std::string>> names;
  };
  [[nodiscard]] bool count(std::size_t bytes) noexcept;

  const std::size_t most_names_;
  const std::size_t most_bytes_;
  std::atomic<std::size_t> names_{0};
  std::atomic<std::size_t> bytes_{0};
  const std::string other_{"(other)"};
  std::array<shard, 16> shards_;
};

} // namespace saeta
