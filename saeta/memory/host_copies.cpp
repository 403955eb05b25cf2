#include "saeta/memory/host_copies.hpp"

#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"

namespace saeta {

void copy_from_host(const buffer& target, std::size_t offset, std::span<const std::byte> source) {
  const buffer part = target.slice(offset, source.size());
  if (source.empty()) {
    return;
  }
  context& ctx = *part.owner()->ctx();
  const stream_ref work = ctx.work_stream();
  use_token token(work, {writes(part)});
  ctx.copies().copy(token.span<std::byte>(part).data(), source.data(), source.size(),
                    ctx.copies().kind_between(memory_kind::host, part.kind()), work);
  token.finish();
  ctx.synchronize(work);
}

void copy_to_host(const buffer& source, std::size_t offset, std::span<std::byte> target) {
  const buffer part = source.slice(offset, target.size());
  if (target.empty()) {
    return;
  }
  context& ctx = *part.owner()->ctx();
  const stream_ref work = ctx.work_stream();
  use_token token(work, {reads(part)});
  ctx.copies().copy(target.data(), token.span<const std::byte>(part).data(), target.size(),
                    ctx.copies().kind_between(part.kind(), memory_kind::host), work);
  token.finish();
  ctx.synchronize(work);
}

} // namespace saeta
