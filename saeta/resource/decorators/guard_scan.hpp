// Reads device memory back and compares it with the expected bytes. Private to the guard.
//
// Owner     Has its own stream and page-locked memory.
// Order     Reads are ordered after the points that `stream()` has waited for; `scan` waits for its copies.
// Thread    One at a time.
// Failure   error device or out_of_memory.
#pragma once

#include "saeta/order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace saeta {

struct guard_region {
  const std::uint8_t* address = nullptr;
  std::size_t bytes = 0;
  std::uint8_t expected = 0; ///< value of every byte
};

struct wrong_byte {
  std::size_t offset = 0; ///< of the first wrong byte, from the start of the region
  std::uint8_t value = 0;
};

class guard_scanner {
public:
  explicit guard_scanner(const std::shared_ptr<timelines>& clock);
  guard_scanner(const guard_scanner&) = delete;
  guard_scanner& operator=(const guard_scanner&) = delete;
  ~guard_scanner();

  [[nodiscard]] stream_ref stream() const { return stream_.ref(); }
  /// Waits until the work queued on `stream()` has finished.
  void synchronize() const;
  /// Returns the first wrong byte of each region. Waits once for as many regions as fit into the page-locked
  /// memory.
  [[nodiscard]] std::vector<std::optional<wrong_byte>> scan(std::span<const guard_region> regions);

private:
  struct piece {
    std::size_t region;
    std::size_t offset; ///< in the region
    std::size_t at;     ///< in the page-locked memory
    std::size_t bytes;
  };
  void queue_copy(const guard_region& from, const piece& part) const;
  void compare(std::span<const guard_region> regions, std::span<const piece> parts,
               std::vector<std::optional<wrong_byte>>& found) const;

  std::shared_ptr<backend> device_;
  own_stream stream_;
  std::uint8_t* landing_;
};

} // namespace saeta
