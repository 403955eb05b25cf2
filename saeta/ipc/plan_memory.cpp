#include "saeta/ipc/detail/plan_memory.hpp"

#include <utility>

namespace saeta::ipc::detail {
namespace {

template <class Entry>
std::size_t bytes_of(const std::vector<Entry>& entries) noexcept {
  return entries.capacity() * sizeof(Entry);
}

/// Keeps the larger one, unless it is too large.
template <class Entry>
void keep(std::vector<Entry>& kept, std::vector<Entry>& back) noexcept {
  if (back.capacity() > kept.capacity() && bytes_of(back) <= plan_memory::most_bytes) {
    back.clear();
    kept.swap(back);
  }
}

} // namespace

plan_memory& plan_memory::of(const std::shared_ptr<context>& home) {
  return home->service<plan_memory>([] { return std::make_unique<plan_memory>(); });
}

std::vector<piece_span> plan_memory::take_spans() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

std::vector<scatter_step> plan_memory::take_steps() {
  const std::lock_guard lock(mutex_);
  return std::exchange(steps_, {});
}

void plan_memory::put_back(std::vector<piece_span> spans) noexcept {
  const std::lock_guard lock(mutex_);
  keep(spans_, spans);
}

void plan_memory::put_back(std::vector<scatter_step> steps) noexcept {
  const std::lock_guard lock(mutex_);
  keep(steps_, steps);
}

std::uint64_t plan_memory::host_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return bytes_of(spans_) + bytes_of(steps_);
}

std::size_t plan_memory::trim() noexcept {
  std::vector<piece_span> spans;
  std::vector<scatter_step> steps;
  const std::lock_guard lock(mutex_);
  spans_.swap(spans);
  steps_.swap(steps);
  return bytes_of(spans) + bytes_of(steps);
}

} // namespace saeta::ipc::detail
