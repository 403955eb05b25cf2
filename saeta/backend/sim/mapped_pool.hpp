// A pool that a simulated device has imported: the arena of this or another process, mapped at other
// addresses.
//
// Owner     Shared by the pool's handle and its open allocations. The last of them unmaps it.
#pragma once

#include <cstddef>

namespace saeta::sim {

class mapped_pool {
public:
  /// The caller keeps and closes the descriptor. @throws error device.
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
