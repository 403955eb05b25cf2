// A pool that a simulated device has imported: the arena of another process, or of this one, at other addresses.
//
// Owner     Shared by the handle of the pool and by its open allocations; unmapped with the last of them.
#pragma once

#include <cstddef>

namespace saeta::sim {

class mapped_pool {
public:
  /// The descriptor stays the caller's. @throws error device.
  explicit mapped_pool(int descriptor);
  mapped_pool(const mapped_pool&) = delete;
  mapped_pool& operator=(const mapped_pool&) = delete;
  ~mapped_pool();

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] unsigned char* at(std::size_t offset) const noexcept { return base_ + offset; }
  [[nodiscard]] bool contains(const void* pointer) const noexcept;
  [[nodiscard]] std::size_t offset(const void* pointer) const noexcept;

private:
  unsigned char* base_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace saeta::sim
