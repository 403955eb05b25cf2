// Uploads steps of `take` (device/take.hpp) and queues their kernels.
//
// Order     On the context's work stream. The caller holds a use token over all memory that the steps name,
//           but for the sums of counted steps.
// Failure   budget_exceeded, out_of_memory.
#pragma once

#include "saeta/device/take.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

class take_runner {
public:
  explicit take_runner(std::shared_ptr<context> ctx) : ctx_(std::move(ctx)) {}

  /// Sets the pieces of a step. @param pieces  at least one
  void set_pieces(take_step& step, std::span<const take_source> pieces);
  /// Returns a step with only the first rows of the pieces in the whole source set. Steps that make rows
  /// start from it.
  [[nodiscard]] take_step rows_of(std::span<const std::int64_t> piece_rows);
  /// Counts steps of counted kinds, sets their sums, and waits for the results.
  [[nodiscard]] std::vector<taken_count> count(std::span<take_step> steps);
  void run(std::span<take_step> steps);

private:
  std::shared_ptr<context> ctx_;
  std::vector<take_source> sources_; ///< of all steps, as the steps number them
  std::vector<buffer> sums_;
};

} // namespace saeta
