#include "saeta/bridge/copies.hpp"

#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/staging_ring.hpp"

namespace saeta {
namespace {

constexpr const char* label = "arrow";

} // namespace

void download(const buffer& source, std::span<std::byte> target) {
  if (source.size() > target.size()) {
    throw error(errc::out_of_range,
                concat("a copy of ", source.size(), " bytes into host memory of ", target.size()));
  }
  if (source.size() == 0) {
    return;
  }
  const download_range all{source, target.data()};
  staging_ring::of(source.owner()->home())->download(std::span(&all, 1));
}

buffer allocate_memory(const std::shared_ptr<context>& home, std::size_t bytes, memory_kind kind) {
  const stream_ref work = home->work_stream();
  return kind == own_kind(home->device()) ? buffer::allocate(home, bytes, work, label)
                                          : buffer::allocate(home, bytes, work, label, 0, kind);
}

buffer upload_bytes(const std::shared_ptr<context>& home, std::span<const std::byte> source,
                    memory_kind kind) {
  if (kind != own_kind(home->device())) {
    buffer made = allocate_memory(home, source.size(), kind);
    write_bytes(made, source);
    return made;
  }
  transfer_plan plan;
  const std::size_t number = plan.add(source);
  plan.finish();
  const buffer slab = staging_ring::of(home)->upload(home, plan, label);
  return source.empty() ? slab : slab.slice(plan.target_of(number), source.size());
}

void write_bytes(const buffer& target, std::span<const std::byte> source) {
  if (source.size() > target.size()) {
    throw error(errc::out_of_range,
                concat("a copy of ", source.size(), " bytes into a buffer of ", target.size()));
  }
  if (source.empty()) {
    return;
  }
  const std::shared_ptr<context> home = target.owner()->home();
  const stream_ref work = home->work_stream();
  const copy_kind kind = home->copies().kind_between(memory_kind::host, target.kind());
  use_token token(work, {writes(target)});
  home->copies().count_transfer(kind);
  try {
    home->copies().copy(token.mutable_data<std::byte>(target), source.data(), source.size(), kind, work);
  } catch (...) {
    home->synchronize(work); // the source is the caller's: nothing may read it any more
    throw;
  }
  token.finish();
  home->synchronize(work);
}

buffer copy_bytes(const std::shared_ptr<context>& home, const buffer& source, memory_kind kind) {
  buffer made = allocate_memory(home, source.size(), kind);
  if (source.size() != 0) {
    staging_ring::of(home)->copy(made, source, home->work_stream());
  }
  return made;
}

} // namespace saeta
