#include "saeta/memory/export_hold.hpp"

#include "saeta/base/report.hpp"
#include "saeta/memory/context.hpp"

#include <algorithm>
#include <map>

namespace saeta {
namespace {

std::vector<std::shared_ptr<storage>> distinct(std::span<const buffer> views) {
  std::vector<std::shared_ptr<storage>> found;
  for (const buffer& view : views) {
    if (view.present()) {
      found.push_back(view.owner());
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a->generation() < b->generation(); });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

} // namespace

export_hold::export_hold(std::span<const buffer> views, access mode)
    : storages_(distinct(views)), mode_(mode) {
  const context* counted = nullptr;
  for (const auto& bytes : storages_) {
    bytes->begin_export(mode_);
    if (bytes->where().get() != counted) {
      counted = bytes->where().get();
      bytes->where()->count().exports.fetch_add(1);
    }
  }
}

export_hold::~export_hold() {
  std::map<context*, std::optional<fence>> fences; // one event a device, whatever the number of buffers
  for (const auto& bytes : storages_) {
    context* home = &bytes->where()->root();
    if (home->inherited()) {
      continue; // of a parent process, where the consumer's other views are
    }
    try {
      if (!fences.contains(home)) {
        fences[home] = home->events().record_context();
      }
      bytes->end_export(mode_, fences[home]);
    } catch (...) {
      report_current_exception("export_hold");
      bytes->end_export(mode_, std::nullopt); // fenced at release instead
    }
  }
}

void order_handover(std::span<const buffer> views, stream_ref stream) {
  const event_pool* asked = nullptr; // one question a device, whatever the number of buffers
  bool captures = false;
  for (const auto& bytes : distinct(views)) {
    context& home = *bytes->where();
    if (home.inherited()) {
      home.require_readable(); // and nothing is pending on the host
      continue;
    }
    if (asked != &home.events()) {
      asked = &home.events();
      captures = home.events().heed_capture(stream);
    }
    for (const fence& f : bytes->ordering().last_writes(bytes->tag())) {
      if (!captures) {
        f.wait(stream);
      } else if (!f.complete()) {
        home.synchronize(f); // a capture can't wait for what is outside of it
      }
    }
  }
}

void synchronize_handover(std::span<const buffer> views) {
  for (const auto& bytes : distinct(views)) {
    if (bytes->where()->inherited()) {
      bytes->where()->require_readable();
      continue;
    }
    for (const fence& f : bytes->ordering().last_writes(bytes->tag())) {
      bytes->where()->synchronize(f);
    }
  }
}

} // namespace saeta
