#include "saeta/budget/budget.hpp"

#include "saeta/budget/tree.hpp"

#include <atomic>

namespace saeta {

std::shared_ptr<budget> budget::create(std::string name, std::uint64_t limit) {
  return std::shared_ptr<budget>(
      new budget(std::move(name), nullptr, std::make_shared<budget_tree>(), limit));
}

std::shared_ptr<budget> budget::make_child(std::string name, std::uint64_t limit) {
  return std::shared_ptr<budget>(new budget(std::move(name), shared_from_this(), tree_, limit));
}

budget::budget(std::string name, std::shared_ptr<budget> parent, std::shared_ptr<budget_tree> tree,
               std::uint64_t limit)
    : name_(std::move(name)), parent_(std::move(parent)), tree_(std::move(tree)),
      node_(std::make_unique<node>(*this, parent_ ? parent_->node_.get() : nullptr, limit)) {}

std::uint64_t budget::next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

budget::~budget() { tree_->remove(*node_); }

bool budget::try_charge(std::uint64_t bytes) noexcept {
  return node_->own_shard().spend(bytes) || tree_->charge(*node_, bytes);
}

bool budget::charge_by(std::uint64_t bytes, time_point deadline) {
  return node_->own_shard().spend(bytes) || tree_->wait_in_line(*node_, bytes, deadline, nullptr);
}

std::optional<budget_refusal> budget::charge_or_refuse(std::uint64_t bytes) {
  if (node_->own_shard().spend(bytes)) {
    return std::nullopt;
  }
  return tree_->charge_or_refuse(*node_, bytes);
}

void budget::close() noexcept { tree_->close(*node_); }

bool budget::closed() const noexcept { return is_closed(*node_); }

bool budget::can_never_fit(std::uint64_t bytes) const noexcept { return saeta::can_never_fit(*node_, bytes); }

std::size_t budget::waiting() const noexcept { return tree_->waiting(); }

void budget::refund(std::uint64_t bytes) noexcept {
  if (!node_->own_shard().give_back(bytes)) {
    tree_->refund(*node_, bytes);
  }
}

budget_statistics budget::statistics() const noexcept { return tree_->statistics(*node_); }

void budget::reset_peak() noexcept { tree_->reset_peak(*node_); }

void budget::set_limit(std::uint64_t limit) { tree_->set_limit(*node_, limit); }

std::uint64_t budget::limit() const noexcept { return node_->limit.load(std::memory_order_relaxed); }

bool budget::is_within(const budget& ancestor) const noexcept {
  const budget* b = this;
  while (b != nullptr && b != &ancestor) {
    b = b->parent_.get();
  }
  return b != nullptr;
}

budget_window budget::open_window() {
  auto opened = std::make_unique<budget_window::state>();
  opened->of = shared_from_this();
  tree_->open(*node_, *opened);
  return budget_window(std::move(opened));
}

budget_window::budget_window(std::unique_ptr<state> opened) : state_(std::move(opened)) {}

budget_window::budget_window(budget_window&&) noexcept = default;

budget_window::~budget_window() {
  if (state_ != nullptr) {
    state_->of->tree_->close(*state_->of->node_, *state_);
  }
}

budget_window::values budget_window::read() const {
  return state_->of->tree_->read(*state_->of->node_, *state_);
}

} // namespace saeta
