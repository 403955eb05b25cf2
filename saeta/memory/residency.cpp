// How the bytes of a storage change the block that they are in.
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/detail/context_core.hpp"
#include "saeta/memory/storage.hpp"

#include <thread>
#include <utility>

namespace saeta {
namespace {

/// The storage for this thread alone, as a write. Given up at its end unless it was ended.
class sole_use {
public:
  sole_use(storage& of, context& home, const stream_ref& stream) : ordering_(of.ordering()) {
    requirement before;
    const std::uint32_t seen = ordering_.acquire_unpinned(before, of.tag());
    try {
      if (before.unknown) {
        before.points.add(home.root().mark_unknown_work(of.tag()).all());
      }
      wait(stream, before.points);
      if (before.unknown) {
        ordering_.settle(access::write, {}, seen);
      }
    } catch (...) {
      ordering_.give_up(access::write, before);
      throw;
    }
    waited_ = std::move(before);
  }
  sole_use(const sole_use&) = delete;
  sole_use& operator=(const sole_use&) = delete;
  ~sole_use() {
    if (open_) {
      ordering_.give_up(access::write, waited_);
    }
  }

  /// Later uses wait for it, in place of all earlier ones.
  void end(point done) noexcept {
    open_ = false;
    ordering_.end(access::write, std::this_thread::get_id(), done);
  }

private:
  ordering_state& ordering_;
  requirement waited_;
  bool open_ = true;
};

/// A look at the clock of a stream that is ours, which can't fail.
point mark_own(const stream_ref& ours) noexcept { return mark(ours); }

} // namespace

void storage::exchange(block& other, resource*& from) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  other.pointer = std::atomic_ref(block_.pointer).exchange(other.pointer, relaxed);
  other.kind = std::atomic_ref(block_.kind).exchange(other.kind, relaxed);
  std::swap(block_.stream_id, other.stream_id);
  std::swap(block_.timeline, other.timeline);
  std::swap(block_.ready, other.ready);
  std::swap(block_.generation, other.generation);
  std::swap(block_.base, other.base);
  std::swap(block_.base_bytes, other.base_bytes);
  std::swap(block_.record, other.record);
  std::swap(block_.cached, other.cached);
  std::swap(block_.order, other.order);
  std::swap(block_.charged, other.charged);
  from = from_.exchange(from, relaxed);
}

extent storage::lies_in() const noexcept {
  const resource* const from = from_.load(std::memory_order_relaxed);
  return from == nullptr ? extent{block_.pointer, block_.bytes, 0} : from->extent_of(block_);
}

void storage::relocate(memory_kind to) {
  const std::shared_ptr<context> self = home();
  if (external_) {
    throw error(errc::unsupported,
                concat("buffer '", tag(), "' is memory of somebody else, which can't be moved"));
  }
  const context::memory_source source = self->source_of(to, tag());
  const auto there = [&] { return source.from == from_.load(std::memory_order_relaxed); };
  if (there() || bytes() == 0) {
    return;
  }
  const stream_ref stream = self->work_stream();
  resource* from = source.from;
  block other = self->allocate(source, bytes(), block_.alignment, block_.label, stream);
  requirement after; // of the old block
  try {
    sole_use use(*this, *self, stream);
    if (there()) { // by another thread, meanwhile
      return self->release_later(*from, other, {});
    }
    ledger::entry held = self->core_->holders->add(owner_kind::own, block_.label, bytes(), source.charged,
                                                   kept_ ? keeps_owner::no : keeps_owner::yes);
    const copy_kind kind = self->kind_of_copy(block_.kind, other.kind);
    try {
      self->copy(other.pointer, block_.pointer, bytes(), kind, stream);
    } catch (...) {
      ledger::remove(held);
      throw;
    }
    self->count_transfer(kind);
    const point done = mark_own(stream);
    after.points.start_with(done);
    exchange(other, from);
    std::swap(entry_, held);
    use.end(done);
    ledger::remove(held);
  } catch (...) {
    self->release_later(*from, other, {});
    throw;
  }
  if (!self->core_->free_in_order(*from, other, after)) {
    self->release_later(*from, other, std::move(after));
  }
}

} // namespace saeta
