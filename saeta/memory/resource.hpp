// A resource allocates and frees bytes in stream order. A decorator is a resource on top of a resource.
//
// Owner     A block belongs to whoever allocated it, until a successful `deallocate` on the same resource. The resource
//           outlives its blocks.
// Order     The memory may be used on `stream` at once, elsewhere after an event recorded there. `deallocate` says that
//           work queued on `stream` so far is the last to use the block.
// Thread    Any.
// Failure   `allocate`: error budget_exceeded or out_of_memory, nothing taken. `deallocate`: false, reported, and the
//           block still belongs to the caller.
// Zero      A request for 0 bytes succeeds without a driver call: a null pointer with its own generation.
#pragma once

#include "saeta/device/stream.hpp"
#include "saeta/memory/block.hpp"

#include <memory>

namespace saeta {

class resource {
public:
  resource() = default;
  resource(const resource&) = delete;
  resource& operator=(const resource&) = delete;
  virtual ~resource() = default;

  /// @param bytes      may be 0.
  /// @param alignment  a power of two; 0 asks for the device's own. More than the device's own is honoured.
  [[nodiscard]] virtual block allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) = 0;
  [[nodiscard]] virtual bool deallocate(const block& what, stream_ref stream) noexcept = 0;
  /// Gives memory that is held but not in use back to the device; returns the bytes that went back.
  virtual std::size_t trim() = 0;
  /// True when `deallocate` neither waits for the device nor needs the recorded work to have finished first.
  [[nodiscard]] virtual bool stream_ordered() const noexcept = 0;
};

} // namespace saeta
