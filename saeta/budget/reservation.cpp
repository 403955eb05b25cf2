#include "saeta/budget/reservation.hpp"

#include "saeta/base/required.hpp"
#include "saeta/budget/tree.hpp"

#include <utility>

namespace saeta {

struct SAETA_LOCAL reservation::state {
  std::shared_ptr<budget> from;
  std::uint64_t bytes = 0;
  budget_tree::promise left; ///< guarded by the tree
};

reservation reservation::make(std::shared_ptr<budget> from, std::uint64_t bytes, overbooking policy) {
  require_argument(from, "from");
  auto parts = std::make_unique<state>();
  parts->left = from->tree_->reserve(*from->node_, bytes, policy == overbooking::allow);
  parts->bytes = bytes;
  parts->from = std::move(from);
  return reservation(std::move(parts));
}

std::optional<reservation> reservation::make_by(std::shared_ptr<budget> from, std::uint64_t bytes,
                                                budget::time_point deadline) {
  auto parts = std::make_unique<state>();
  parts->bytes = bytes;
  parts->from = std::move(from);
  budget& asked = *parts->from;
  budget_tree::promise& left = parts->left;
  reservation result(std::move(parts)); // an interrupted wait returns what was promised meanwhile
  return asked.tree_->wait_in_line(*asked.node_, bytes, deadline, &left) ? std::optional(std::move(result))
                                                                         : std::nullopt;
}

reservation::reservation(std::unique_ptr<state> state) : state_(std::move(state)) {}

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
  return state_ != nullptr && state_->from->tree_->draw(*state_->from->node_, state_->left, bytes);
}

std::optional<budget_refusal> reservation::draw_or_refuse(std::uint64_t bytes) {
  if (state_ == nullptr) {
    budget_refusal numbers;
    numbers.layer = "a reservation that was moved from";
    numbers.requested = bytes;
    numbers.required = bytes;
    return numbers;
  }
  return state_->from->tree_->draw_or_refuse(*state_->from->node_, state_->left, state_->bytes, bytes);
}

void reservation::put_back(std::uint64_t bytes) noexcept {
  if (state_ != nullptr) {
    state_->from->tree_->put_back(*state_->from->node_, state_->left, bytes);
  }
}

void reservation::release() noexcept {
  if (state_ != nullptr) {
    state_->from->tree_->release(*state_->from->node_, state_->left);
  }
}

std::uint64_t reservation::bytes() const noexcept { return state_ != nullptr ? state_->bytes : 0; }

std::uint64_t reservation::left() const noexcept {
  if (state_ == nullptr) {
    return 0;
  }
  const budget_tree::promise now = state_->from->tree_->read(state_->left);
  return now.firm + now.overbooked;
}

std::uint64_t reservation::overbooked() const noexcept {
  return state_ != nullptr ? state_->from->tree_->read(state_->left).overbooked : 0;
}

const std::shared_ptr<budget>& reservation::from() const noexcept {
  static const std::shared_ptr<budget> none;
  return state_ != nullptr ? state_->from : none;
}

} // namespace saeta
