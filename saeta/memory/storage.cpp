#include "saeta/memory/storage.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/detail/context_core.hpp"

#include <utility>

namespace saeta {

// Both go on after another constructor: once the object owns the block, every later failure gives it back through the
// destructor.
storage::storage(key own, const std::shared_ptr<context>& home, std::size_t bytes, const stream_ref& stream,
                 saeta::tag label, std::size_t alignment)
    : storage(own, home->keeper(home), [&] { return home->allocate(bytes, alignment, label, stream); }) {
  ordering_.start_after(block_.ready);
  entry_ = home->core_->holders.add(owner_kind::own, label, bytes, home->budget_.get());
}

storage::storage(key own, const std::shared_ptr<context>& home, external_memory& memory)
    : storage(own, home->keeper(home), [&] {
        block foreign;
        foreign.pointer = memory.pointer;
        foreign.bytes = memory.bytes;
        foreign.device = memory.device;
        foreign.generation = next_generation();
        foreign.label = memory.tag;
        return foreign;
      }) {
  external_ = true;
  access_ = memory.access;
  ordering_.start_after(memory.ready);
  entry_ = home->core_->holders.add(owner_kind::external, block_.label, memory.bytes, nullptr);
  keepalive_ = std::move(memory.keepalive);
}

std::shared_ptr<storage> storage::allocate(const std::shared_ptr<context>& home, std::size_t bytes,
                                           const stream_ref& stream, saeta::tag label,
                                           std::size_t alignment) {
  return std::allocate_shared<storage>(own_process_allocator<storage>(), key{}, home, bytes, stream, label,
                                       alignment);
}

std::shared_ptr<storage> storage::adopt(const std::shared_ptr<context>& home, external_memory memory) {
  home->require_open();
  if (memory.pointer == nullptr && memory.bytes != 0) {
    throw error(errc::invalid_argument,
                concat("external memory '", memory.tag, "' of ", memory.bytes, " bytes is null"));
  }
  return std::allocate_shared<storage>(own_process_allocator<storage>(), key{}, home, memory);
}

storage::~storage() {
  context& home = *context_;
  ledger::remove(entry_);
  // A keepalive may be a deleter without a pointer.
  if (external_ ? keepalive_.use_count() == 0 : block_.generation == 0) {
    return;
  }
  requirement after = ordering_.take_all();
  try {
    if (external_) {
      home.core_->releases->submit({.after = std::move(after),
                                    .action =
                                        [kept = std::move(keepalive_), self = context_]() mutable {
                                          kept.reset();
                                          return true;
                                        },
                                    .label = "external:" + tag(),
                                    .bytes = block_.bytes});
    } else {
      home.release(block_, std::move(after), std::move(context_));
    }
  } catch (...) {
    report_current_exception("storage '" + tag() + "' could not be released");
  }
}

} // namespace saeta
