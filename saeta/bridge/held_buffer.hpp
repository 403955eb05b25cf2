// An arrow::Buffer that holds an export of our bytes.
#pragma once

#include "saeta/interop/known_memory.hpp"
#include "saeta/memory/buffer.hpp"

#include <arrow/buffer.h>

#include <memory>

namespace saeta {

class held_buffer final : public arrow::Buffer {
public:
  /// As arrow_buffer, with the memory manager of the bytes' context and kind.
  held_buffer(const buffer& bytes, access mode, std::shared_ptr<arrow::MemoryManager> manager);

  [[nodiscard]] const buffer& bytes() const noexcept { return bytes_; }

private:
  buffer bytes_;
  known_export hold_;
};

/// As bytes_of, for memory that outlives the view or that `keepalive` keeps.
buffer view_of(const std::shared_ptr<context>& ctx, const arrow::Buffer& from,
               std::shared_ptr<void> keepalive);

} // namespace saeta
