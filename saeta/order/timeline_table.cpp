#include "saeta/order/timeline_table.hpp"

#include "saeta/base/process.hpp"
#include "saeta/base/text.hpp"

namespace saeta {

timeline_table& timeline_table::instance() {
  static constinit per_process<timeline_table>
      all; // never destroyed: static destructors may still release memory
  return all.get();
}

timeline& timeline_table::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (made_ / chunk == most_chunks) {
      throw error(errc::unsupported, concat("more than ", made_, " streams are used at once"));
    }
    auto block = std::make_unique<timeline[]>(chunk);
    free_.reserve(made_ + chunk); // so that retiring never fails
    for (std::size_t i = chunk; i-- > 0;) {
      block[i].index = static_cast<std::uint32_t>(made_ + i);
      free_.push_back(&block[i]);
    }
    chunks_[made_ / chunk].store(block.release(), std::memory_order_release);
    made_ += chunk;
  }
  timeline& slot = *free_.back();
  free_.pop_back();
  // A reader of the slot's last owner that sees one of these then sees that the id is gone (`mark`).
  slot.open.store(1, std::memory_order_release);
  slot.passed.store(0, std::memory_order_release);
  slot.id.store(static_cast<timeline_id>(++taken_ << index_bits | slot.index), std::memory_order_release);
  return slot;
}

void timeline_table::retire(timeline& gone) noexcept {
  gone.id.store(timeline_id::none, std::memory_order_release);
  gone.home = nullptr;
  gone.ours.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  free_.push_back(&gone);
}

timeline* timeline_table::find(timeline_id id) const noexcept {
  if (id == timeline_id::none) {
    return nullptr;
  }
  const std::uint64_t index = static_cast<std::uint64_t>(id) & ((std::uint64_t{1} << index_bits) - 1);
  timeline* const slots = chunks_[index / chunk].load(std::memory_order_acquire);
  timeline& slot = slots[index % chunk];
  return slot.is(id) ? &slot : nullptr;
}

} // namespace saeta
