#include "saeta/capi/handles.hpp"

#include "saeta/base/process.hpp"
#include "saeta/base/text.hpp"

#include <mutex>
#include <utility>

namespace saeta::capi {
namespace {

std::string_view name_of(handle_kind kind) noexcept {
  switch (kind) {
  case handle_kind::context:
    return "context";
  case handle_kind::buffer:
    return "buffer";
  case handle_kind::use:
    return "use";
  case handle_kind::table:
    return "table";
  case handle_kind::scan:
    return "scan";
  case handle_kind::writer:
    return "writer";
  case handle_kind::packed:
    return "packed table";
  case handle_kind::spill:
    return "spilled table";
  case handle_kind::shared:
    return "shared table";
  }
  return "";
}

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  throw error(errc::invalid_argument, concat("the argument '", name, "' ", why));
}

} // namespace

handle_table& handle_table::get() {
  static constinit per_process<handle_table> table;
  return table.get();
}

void* handle_table::add(handle_kind kind, std::shared_ptr<void> object) {
  const std::unique_lock lock(mutex_);
  const std::uintptr_t handle = base | next_;
  held_.emplace(handle, entry{kind, std::move(object)});
  ++next_;
  return reinterpret_cast<void*>(handle);
}

std::shared_ptr<void> handle_table::find(const void* handle, handle_kind kind, std::string_view name) const {
  if (handle == nullptr) {
    refuse(name, "is null");
  }
  const std::shared_lock lock(mutex_);
  const auto found = held_.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found == held_.end()) {
    refuse(name, "is not a handle, or was released");
  }
  if (found->second.kind != kind) {
    refuse(name, concat("is the handle of a ", name_of(found->second.kind), ", expected a ", name_of(kind)));
  }
  return found->second.object;
}

void handle_table::release(const void* handle) {
  if (handle == nullptr) {
    return;
  }
  std::shared_ptr<void> ended;
  const std::unique_lock lock(mutex_);
  const auto found = held_.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found == held_.end()) {
    refuse("handle", "is not a handle, or was released");
  }
  ended = std::move(found->second.object);
  held_.erase(found);
}

std::size_t handle_table::size() const {
  const std::shared_lock lock(mutex_);
  return held_.size();
}

} // namespace saeta::capi
