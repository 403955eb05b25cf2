#include "saeta/memory/storage.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/detail/context_core.hpp"

#include <utility>

namespace saeta {

storage::storage(std::shared_ptr<context> where, block bytes) : context_(std::move(where)), block_(bytes) {}

std::shared_ptr<storage> storage::allocate(const std::shared_ptr<context>& where, std::size_t bytes,
                                           stream_ref stream, saeta::tag label, std::size_t alignment) {
  context& home = *where;
  // The object comes first: once it owns the block, every later failure gives the block back through its destructor.
  std::shared_ptr<storage> made(new storage(home.keeper(), block{}), delete_in_own_process{});
  made->block_ = home.allocate(bytes, alignment, label, stream);
  made->ordering_.add_write(made->block_.ready);
  home.core_->holders.add(made.get(), owner_kind::own, label, bytes, home.budget_.get());
  return made;
}

std::shared_ptr<storage> storage::adopt(const std::shared_ptr<context>& where, external_memory memory) {
  context& home = *where;
  home.require_open();
  if (memory.pointer == nullptr && memory.bytes != 0) {
    throw error(errc::invalid_argument,
                concat("external memory '", memory.tag, "' of ", memory.bytes, " bytes is null"));
  }
  block foreign;
  foreign.pointer = memory.pointer;
  foreign.bytes = memory.bytes;
  foreign.device = memory.device;
  foreign.generation = next_generation();
  foreign.label = memory.tag;
  std::shared_ptr<storage> made(new storage(home.keeper(), foreign), delete_in_own_process{});
  made->external_ = true;
  made->access_ = memory.access;
  made->ordering_.add_write(memory.ready);
  home.core_->holders.add(made.get(), owner_kind::external, foreign.label, memory.bytes, nullptr);
  home.count().imports.fetch_add(1);
  made->keepalive_ = std::move(memory.keepalive);
  return made;
}

storage::~storage() {
  context& home = *context_;
  home.core_->holders.remove(this);
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
      home.release(block_, std::move(after), context_);
    }
  } catch (...) {
    report_current_exception("storage '" + tag() + "' could not be released");
  }
}

} // namespace saeta
