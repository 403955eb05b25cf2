// Memory for compressed bytes, whose number is known only afterwards.
//
// Owner     Owns ordinary host memory.
// Budget    Its bytes are charged while it lives.
// Failure   budget_exceeded, out_of_memory.
#pragma once

#include "saeta/budget/budget.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace saeta::ipc::detail {

class packed_memory {
public:
  packed_memory(std::shared_ptr<budget> charged, std::size_t bytes);
  packed_memory(const packed_memory&) = delete;
  packed_memory& operator=(const packed_memory&) = delete;
  ~packed_memory();

  /// Gives back what is behind the first bytes.
  void shrink(std::size_t bytes) noexcept;
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {at_, bytes_}; }

private:
  std::shared_ptr<budget> charged_;
  std::byte* at_ = nullptr;
  std::size_t bytes_;
};

} // namespace saeta::ipc::detail
