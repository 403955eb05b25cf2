#include "saeta/memory/loans/ready_storage.hpp"

#include "saeta/memory/context.hpp"

namespace saeta {

std::shared_ptr<storage> allocate_ready(const std::shared_ptr<context>& ctx, std::size_t bytes, tag label,
                                        std::size_t alignment) {
  std::shared_ptr<storage> made = storage::allocate(ctx, bytes, ctx->work_stream(), label, alignment);
  ctx->synchronize(made->ordering().find_dependencies(access::write, label.name()).points);
  return made;
}

} // namespace saeta
