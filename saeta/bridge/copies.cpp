#include "saeta/bridge/copies.hpp"

#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/staging_ring.hpp"

namespace saeta {
namespace {

constexpr const char* buffer_tag = "arrow";

} // namespace

void download(const buffer& source, std::span<std::byte> target) {
  if (source.size() > target.size()) {
    throw error(errc::out_of_range,
                concat("can't copy ", source.size(), " bytes into host memory of ", target.size(), " bytes"));
  }
  if (source.size() == 0) {
    return;
  }
  const download_range all{source, target.data()};
  staging_ring::of(source.owner()->ctx())->download(std::span(&all, 1));
}

buffer allocate_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, memory_kind kind) {
  const stream_ref work = ctx->work_stream();
  return kind == own_kind(ctx->device()) ? buffer::allocate(ctx, bytes, work, buffer_tag)
                                         : buffer::allocate(ctx, bytes, work, buffer_tag, 0, kind);
}

buffer upload_bytes(const std::shared_ptr<context>& ctx, std::span<const std::byte> source,
                    memory_kind kind) {
  if (kind != own_kind(ctx->device())) {
    buffer buffer = allocate_memory(ctx, source.size(), kind);
    write_bytes(buffer, source);
    return buffer;
  }
  transfer_plan plan;
  const std::size_t number = plan.add(source);
  plan.finish();
  const buffer slab = staging_ring::of(ctx)->upload(ctx, plan, buffer_tag);
  return source.empty() ? slab : slab.slice(plan.target_of(number), source.size());
}

void write_bytes(const buffer& target, std::span<const std::byte> source) {
  if (source.size() > target.size()) {
    throw error(errc::out_of_range,
                concat("can't copy ", source.size(), " bytes into a buffer of ", target.size(), " bytes"));
  }
  if (source.empty()) {
    return;
  }
  const std::shared_ptr<context> ctx = target.owner()->ctx();
  const stream_ref work = ctx->work_stream();
  const copy_kind kind = ctx->copies().kind_between(memory_kind::host, target.kind());
  use_token token(work, {writes(target)});
  ctx->copies().count_transfer(kind);
  try {
    ctx->copies().copy(token.span<std::byte>(target).data(), source.data(), source.size(), kind, work);
  } catch (...) {
    ctx->synchronize(work); // the caller owns the source, so no copy may still read it
    throw;
  }
  token.finish();
  ctx->synchronize(work);
}

buffer copy_bytes(const std::shared_ptr<context>& ctx, const buffer& source, memory_kind kind) {
  buffer buffer = allocate_memory(ctx, source.size(), kind);
  if (source.size() != 0) {
    staging_ring::of(ctx)->copy(buffer, source, ctx->work_stream());
  }
  return buffer;
}

} // namespace saeta
