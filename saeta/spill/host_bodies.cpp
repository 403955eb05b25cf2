// Bodies in host memory: page-locked and pageable.
#include "saeta/memory/use_token.hpp"
#include "saeta/spill/spilled_body.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/staging/transfer_plan.hpp"

#include <algorithm>
#include <bit>
#include <span>

namespace saeta {
namespace {

constexpr const char* spill_tag = "spill";
/// Long enough for the rate of the link. Blocks of one size serve bodies of any size.
constexpr std::size_t largest_piece = std::size_t{32} << 20;
constexpr std::size_t smallest_piece = std::size_t{1} << 20;

class body_in_pinned_memory final : public spilled_body {
public:
  /// @param written  passes when the bytes are in the pieces
  body_in_pinned_memory(tier_charge charge, std::vector<buffer> pieces, point written)
      : spilled_body(std::move(charge)), pieces_(std::move(pieces)), written_(written) {}

  [[nodiscard]] spill_tier tier() const noexcept override { return spill_tier::pinned; }

  [[nodiscard]] buffer restore(const std::shared_ptr<context>& into) const override {
    std::size_t bytes = 0;
    for (const buffer& piece : pieces_) {
      bytes += piece.size();
    }
    buffer body = buffer::allocate(into, bytes, into->work_stream(), spill_tag);
    copy(*into, body, pieces_, true);
    return body;
  }

  [[nodiscard]] std::vector<std::span<const std::byte>> parts() const override {
    point_set awaited;
    awaited.add(written_);
    pieces_.front().owner()->ctx()->synchronize(awaited);
    std::vector<std::span<const std::byte>> found;
    for (const buffer& piece : pieces_) {
      found.emplace_back(reinterpret_cast<const std::byte*>(piece.address()), piece.size());
    }
    return found;
  }

  /// Queues one copy between a body and its pieces.
  static void copy(context& ctx, const buffer& body, std::span<const buffer> pieces, bool back) {
    std::vector<use> uses{back ? writes(body) : reads(body)};
    for (const buffer& piece : pieces) {
      uses.push_back(back ? reads(piece) : writes(piece));
    }
    use_token token(ctx.work_stream(), uses);
    std::vector<copy_range> ranges;
    std::size_t at = 0;
    for (const buffer& piece : pieces) {
      if (back) {
        ranges.push_back(
            {token.mutable_data<std::byte>(body) + at, token.data<std::byte>(piece), piece.size()});
      } else {
        ranges.push_back(
            {token.mutable_data<std::byte>(piece), token.data<std::byte>(body) + at, piece.size()});
      }
      at += piece.size();
    }
    const memory_kind host = pieces.front().kind();
    const copy_kind kind =
        back ? ctx.copies().kind_between(host, body.kind()) : ctx.copies().kind_between(body.kind(), host);
    ctx.copies().copy_all(ranges, kind, ctx.work_stream());
    ctx.copies().count_transfer(kind);
    token.finish();
  }

private:
  std::vector<buffer> pieces_;
  point written_;
};

class body_in_pageable_memory final : public spilled_body {
public:
  body_in_pageable_memory(tier_charge charge, std::shared_ptr<std::byte> memory, std::size_t bytes)
      : spilled_body(std::move(charge)), memory_(std::move(memory)), bytes_(bytes) {}

  [[nodiscard]] spill_tier tier() const noexcept override { return spill_tier::pageable; }

  [[nodiscard]] buffer restore(const std::shared_ptr<context>& into) const override {
    transfer_plan plan;
    plan.add({memory_.get(), bytes_});
    plan.finish();
    return staging_ring::of(into)->upload(into, plan, spill_tag).slice(0, bytes_);
  }

  [[nodiscard]] std::vector<std::span<const std::byte>> parts() const override {
    return {{memory_.get(), bytes_}};
  }

private:
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_;
};

} // namespace

tier_charge::tier_charge(std::shared_ptr<budget> tier, std::uint64_t bytes)
    : tier_(std::move(tier)), bytes_(bytes) {
  if (auto refused = tier_->charge_or_refuse(bytes)) {
    throw error(std::move(*refused));
  }
}

std::vector<std::size_t> pinned_sizes(std::size_t bytes) {
  std::vector<std::size_t> sizes;
  while (bytes != 0) {
    const std::size_t power = std::clamp(std::bit_floor(bytes), smallest_piece, largest_piece);
    sizes.push_back(std::min(power, bytes));
    bytes -= sizes.back();
  }
  return sizes;
}

spilled_pointer pinned_body(const std::shared_ptr<context>& ctx, const buffer& body, tier_charge charge) {
  std::vector<buffer> pieces;
  for (const std::size_t bytes : pinned_sizes(body.size())) {
    pieces.push_back(buffer::allocate(ctx, bytes, ctx->work_stream(), spill_tag, 0, memory_kind::pinned));
  }
  body_in_pinned_memory::copy(*ctx, body, pieces, false);
  return std::make_shared<body_in_pinned_memory>(std::move(charge), std::move(pieces),
                                                 record(ctx->work_stream()));
}

spilled_pointer pageable_body(const std::shared_ptr<context>& ctx, const buffer& body, tier_charge charge) {
  landing_block memory = host_pool_of(ctx)->take(body.size(), ctx->charge_host(body.size(), spill_tag));
  const download_range all{body, memory.memory.get()};
  staging_ring::of(ctx)->download({&all, 1}, memory.fresh);
  return std::make_shared<body_in_pageable_memory>(std::move(charge), std::move(memory.memory), body.size());
}

spilled_pointer moved_to_pageable(const std::shared_ptr<context>& ctx, const spilled_body& from,
                                  std::size_t bytes, tier_charge charge) {
  landing_block memory = host_pool_of(ctx)->take(bytes, ctx->charge_host(bytes, spill_tag));
  std::byte* target = memory.memory.get();
  for (const auto& part : from.parts()) {
    target = std::ranges::copy(part, target).out;
  }
  ctx->copies().count().host_to_host.add_call(bytes);
  return std::make_shared<body_in_pageable_memory>(std::move(charge), std::move(memory.memory), bytes);
}

} // namespace saeta
