// What the plan of a read was written in, kept for the next read.
//
// What      A plan has an entry for each column of each batch, in two large vectors. Memory that is new each time is faulted in page by
//           page, which took half of the time of the plan.
// Owner     The contexts of a device. Of each kind one vector of at most `most_bytes` is kept, until memory is trimmed.
// Thread    Any. Of two reads at a time one has new memory.
#pragma once

#include "saeta/ipc/detail/piece_table.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/transfer/scatter.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace saeta::ipc::detail {

class plan_memory final : public context_service {
public:
  static constexpr std::size_t most_bytes = 4u << 20;

  static plan_memory& of(const std::shared_ptr<context>& home);

  /// Empty, with the room of what was put back.
  [[nodiscard]] std::vector<piece_span> take_spans();
  [[nodiscard]] std::vector<scatter_step> take_steps();
  void put_back(std::vector<piece_span> spans) noexcept;
  void put_back(std::vector<scatter_step> steps) noexcept;

  [[nodiscard]] std::uint64_t host_bytes() const noexcept override;
  std::size_t trim() noexcept override;

private:
  mutable std::mutex mutex_;
  std::vector<piece_span> spans_;
  std::vector<scatter_step> steps_;
};

} // namespace saeta::ipc::detail
