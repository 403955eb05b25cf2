#include "python/src/allocators/torch_allocator.hpp"
#include "python/src/core/gil.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace saeta::py {
namespace {

using pool_key = std::pair<std::int32_t, torch_pool_id>;

struct torch_pools {
  struct named {
    std::shared_ptr<graph_pool> pool;
    int owners = 0;
  };
  struct opened {
    pool_key key;
    std::shared_ptr<graph_pool> pool;
    torch_stream_filter admits;
  };

  std::shared_mutex mutex;
  std::map<pool_key, named> known;
  std::vector<opened> open;
  std::atomic<bool> any_open{false}; ///< lets allocations outside of captures skip the lock
};

/// Never destroyed, because torch may drop graphs until the process ends.
torch_pools& pools() {
  static constinit per_process<torch_pools> all;
  return all.get();
}

void begin(pool_key key, torch_stream_filter admits) {
  const torch_source from = source_for_torch(key.first, torch_memory::tensors);
  torch_pools& all = pools();
  const std::lock_guard lock(all.mutex);
  all.open.reserve(all.open.size() + 1);
  const auto found = all.known.find(key);
  auto pool = found == all.known.end()
                  ? graph_pool::create(from.ctx, tag(concat(from.label.name(), ".graph_pool")))
                  : found->second.pool;
  ++all.known.try_emplace(key, torch_pools::named{pool}).first->second.owners;
  all.open.push_back({key, std::move(pool), std::move(admits)});
  all.any_open = true;
}

void end(const pool_key& key) {
  torch_pools& all = pools();
  const std::lock_guard lock(all.mutex);
  const auto last = std::ranges::find(all.open.rbegin(), all.open.rend(), key, &torch_pools::opened::key);
  if (last != all.open.rend()) {
    all.open.erase(std::next(last).base());
  }
  all.any_open = !all.open.empty();
}

void release(const pool_key& key) {
  torch_pools& all = pools();
  std::shared_ptr<graph_pool> ended;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.known.find(key);
    if (found == all.known.end() || --found->second.owners > 0) {
      return;
    }
    ended = std::move(found->second.pool);
    all.known.erase(found);
    std::erase_if(all.open, [&](const auto& each) { return each.key == key; });
    all.any_open = !all.open.empty();
  }
  ended->release();
}

template <class Action>
void reporting(const char* hook, const Action& act) noexcept {
  try {
    released_gil(act);
  } catch (...) {
    report_current_exception(hook);
  }
}

} // namespace

std::shared_ptr<graph_pool> torch_pool_for(std::int32_t ordinal, void* stream) {
  torch_pools& all = pools();
  if (!all.any_open.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  const std::shared_lock lock(all.mutex);
  const auto admits = [&](const torch_pools::opened& each) {
    return each.key.first == ordinal && each.admits(static_cast<CUstream_st*>(stream));
  };
  const auto last = std::find_if(all.open.rbegin(), all.open.rend(), admits);
  return last == all.open.rend() ? nullptr : last->pool;
}

} // namespace saeta::py

extern "C" {

void saeta_torch_begin_pool(int device, saeta::py::torch_pool_id id,
                            saeta::py::torch_stream_filter admits) noexcept {
  saeta::py::reporting("torch's beginAllocateToPool", [&] {
    saeta::py::begin({device, id}, std::move(admits));
  });
}

void saeta_torch_end_pool(int device, saeta::py::torch_pool_id id) noexcept {
  saeta::py::reporting("torch's endAllocateToPool", [&] { saeta::py::end({device, id}); });
}

void saeta_torch_release_pool(int device, saeta::py::torch_pool_id id) noexcept {
  saeta::py::reporting("torch's releasePool", [&] { saeta::py::release({device, id}); });
}
}
