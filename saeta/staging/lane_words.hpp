// Words of page-locked memory in which the device reports its progress with the chunks of the staging ring.
//
// What      One word for each chunk, a cache line apart. The device writes it after a copy
//           (backend::write_word) and the host reads it. Asking the driver for an event takes longer the more
//           threads do so at once.
// Owner     The staging ring. The memory is outside every budget, like that of the guard's scanner: 64 bytes
//           for each chunk.
// Failure   The constructor throws error out_of_memory.
#pragma once

#include "saeta/device/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace saeta {

class SAETA_LOCAL lane_words {
public:
  /// Distance between two words.
  static constexpr std::size_t stride = 64 / sizeof(std::uint32_t);

  /// @param count  number of words, more than 0; each starts at 0
  lane_words(std::shared_ptr<backend> device, std::size_t count);
  lane_words(const lane_words&) = delete;
  lane_words& operator=(const lane_words&) = delete;
  ~lane_words();

  [[nodiscard]] std::uint32_t* at(std::size_t number) const noexcept { return first_ + number * stride; }

private:
  std::shared_ptr<backend> device_;
  std::size_t bytes_;
  std::uint32_t* first_;
};

} // namespace saeta
