#include "saeta/memory/loans/graph_pool_scope.hpp"

#include "saeta/base/required.hpp"
#include "saeta/memory/context.hpp"

#include <utility>

namespace saeta {

graph_pool_scope::graph_pool_scope(std::shared_ptr<graph_pool> pool)
    : announced_(required(pool, "pool")->ctx()->capturing()),
      opened_(std::make_shared<entry>(std::move(pool))) {
  auto& open = of_this_thread();
  std::erase_if(open, [](const auto& each) { return each.expired(); });
  open.push_back(opened_);
  (*opened_)->note_opened();
}

graph_pool_scope::~graph_pool_scope() { (*opened_)->note_ended(); }

std::shared_ptr<graph_pool> graph_pool_scope::open_for(const backend& device) {
  const auto& all = of_this_thread();
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    const std::shared_ptr<entry> open = each->lock();
    if (open && (*open)->ctx()->device_backend().get() == &device) {
      return *open;
    }
  }
  return nullptr;
}

std::vector<std::weak_ptr<graph_pool_scope::entry>>& graph_pool_scope::of_this_thread() {
  thread_local std::vector<std::weak_ptr<entry>> open;
  return open;
}

} // namespace saeta
