#include "saeta/budget/reservation.hpp"

#include "saeta/base/text.hpp"
#include "saeta/budget/detail/tree.hpp"

#include <algorithm>
#include <utility>

namespace saeta {

struct reservation::state {
  std::shared_ptr<budget> from;
  std::uint64_t bytes = 0;
  budget_tree::promise left; ///< guarded by the tree
};

reservation reservation::make(std::shared_ptr<budget> from, std::uint64_t bytes, overbooking policy) {
  auto made = std::make_unique<state>();
  made->left = from->tree_->reserve(*from->node_, bytes, policy == overbooking::allow);
  made->bytes = bytes;
  made->from = std::move(from);
  return reservation(std::move(made));
}

reservation::reservation(std::unique_ptr<state> made) : state_(std::move(made)) {}

reservation::reservation(reservation&&) noexcept = default;

reservation& reservation::operator=(reservation&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
  }
  return *this;
}

reservation::~reservation() { release(); }

bool reservation::try_draw(std::uint64_t bytes) noexcept {
  return state_->from->tree_->draw(*state_->from->node_, state_->left, bytes);
}

void reservation::put_back(std::uint64_t bytes) noexcept {
  state_->from->tree_->put_back(*state_->from->node_, state_->left, bytes);
}

budget_refusal reservation::refuse(std::uint64_t bytes) noexcept {
  const budget& of = *state_->from;
  const budget_tree::promise now = of.tree_->read(state_->left);
  const std::uint64_t rest = now.firm + now.overbooked;
  if (bytes <= rest) { // what is firm was not refused
    return of.tree_->refuse(*of.node_, bytes - std::min(bytes, now.firm));
  }
  of.tree_->count_refusal(*of.node_);
  budget_refusal numbers;
  numbers.layer = concat(of.name(), " (reservation)");
  numbers.requested = bytes;
  numbers.current = state_->bytes - rest;
  numbers.required = uint128{numbers.current} + bytes;
  numbers.limit = state_->bytes;
  numbers.remaining = rest;
  numbers.peak = numbers.current;
  return numbers;
}

void reservation::release() noexcept {
  if (state_ != nullptr) { // null once moved from
    state_->from->tree_->release(*state_->from->node_, state_->left);
  }
}

std::uint64_t reservation::bytes() const noexcept { return state_->bytes; }

std::uint64_t reservation::left() const noexcept {
  const budget_tree::promise now = state_->from->tree_->read(state_->left);
  return now.firm + now.overbooked;
}

std::uint64_t reservation::overbooked() const noexcept {
  return state_->from->tree_->read(state_->left).overbooked;
}

const std::shared_ptr<budget>& reservation::from() const noexcept { return state_->from; }

} // namespace saeta
