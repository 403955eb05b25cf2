// The bytes of a table outside of its device. Private to spill/.
//
// Owner     A body owns its memory or file, and its charge to the budget of the tier.
// Order     Page-locked memory is copied in order on the work stream; a body that is dropped keeps its memory
//           until queued copies have finished. The other copies have finished when the function returns.
// Thread    Any: a body never changes, so it may be restored while it is copied to a slower tier.
// Failure   The `..._body` functions throw and keep nothing. After a failed `restore` the body is unchanged.
#pragma once

#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/spill/spill.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace saeta {

/// Bytes charged to the budget of a tier.
class tier_charge {
public:
  /// @throws error budget_exceeded.
  tier_charge(std::shared_ptr<budget> tier, std::uint64_t bytes);
  tier_charge(tier_charge&&) noexcept = default;
  tier_charge& operator=(tier_charge&&) = delete;
  ~tier_charge() {
    if (tier_) {
      tier_->refund(bytes_);
    }
  }

private:
  std::shared_ptr<budget> tier_; ///< null after a move
  std::uint64_t bytes_;
};

class spill_folder;

class spilled_body {
public:
  explicit spilled_body(tier_charge charge) : charge_(std::move(charge)) {}
  spilled_body(const spilled_body&) = delete;
  spilled_body& operator=(const spilled_body&) = delete;
  virtual ~spilled_body() = default;

  [[nodiscard]] virtual spill_tier tier() const noexcept = 0;
  /// Copies the bytes into one allocation of `into`, ready on its work stream.
  [[nodiscard]] virtual buffer restore(const std::shared_ptr<context>& into) const = 0;
  /// The bytes of a body in host memory, in order. Waits for the copy that writes them.
  [[nodiscard]] virtual std::vector<std::span<const std::byte>> parts() const = 0;

private:
  tier_charge charge_;
};

/// The sizes of the page-locked blocks that a body is kept in. Page-locked memory comes in powers of two, so
/// one block would waste up to half of it.
[[nodiscard]] std::vector<std::size_t> pinned_sizes(std::size_t bytes);

using spilled_pointer = std::shared_ptr<const spilled_body>;
[[nodiscard]] spilled_pointer pinned_body(const std::shared_ptr<context>& ctx, const buffer& body,
                                          tier_charge charge);
[[nodiscard]] spilled_pointer pageable_body(const std::shared_ptr<context>& ctx, const buffer& body,
                                            tier_charge charge);
/// @param window  host memory that the bytes of a device pass; not needed on the host
[[nodiscard]] spilled_pointer file_body(const std::shared_ptr<context>& ctx, const buffer& body,
                                        tier_charge charge, spill_folder& folder,
                                        std::span<std::byte> window);

/// Copies a body in host memory to pageable memory. @param bytes  of the body
[[nodiscard]] spilled_pointer moved_to_pageable(const std::shared_ptr<context>& ctx, const spilled_body& from,
                                                std::size_t bytes, tier_charge charge);
/// Copies a body in host memory to a file.
[[nodiscard]] spilled_pointer moved_to_file(const spilled_body& from, std::size_t bytes, tier_charge charge,
                                            spill_folder& folder);

} // namespace saeta
