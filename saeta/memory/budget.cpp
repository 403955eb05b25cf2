#include "saeta/memory/budget.hpp"

#include "saeta/base/text.hpp"

namespace saeta {
namespace {

void raise_to(std::atomic<std::uint64_t>& peak, std::uint64_t level) noexcept {
  std::uint64_t seen = peak.load();
  while (seen < level && !peak.compare_exchange_weak(seen, level)) {
  }
}

std::uint64_t rest(std::uint64_t limit, std::uint64_t current) noexcept {
  return current < limit ? limit - current : 0; // a limit lowered by a racing thread may lie below
}

} // namespace

bool budget::try_charge(std::uint64_t bytes) noexcept {
  std::uint64_t seen = current_.load();
  do {
    if (bytes > rest(limit_.load(), seen)) {
      return false;
    }
  } while (!current_.compare_exchange_weak(seen, seen + bytes));
  raise_to(peak_, seen + bytes);
  requests_.fetch_add(1);
  return true;
}

void budget::refund(std::uint64_t bytes) noexcept { current_.fetch_sub(bytes); }

budget_refusal budget::refuse(std::uint64_t bytes) noexcept {
  refused_.fetch_add(1);
  const budget_statistics now = statistics();
  budget_refusal numbers;
  numbers.layer = name_;
  numbers.requested = bytes;
  numbers.current = now.current;
  numbers.required = static_cast<uint128>(now.current) + bytes;
  numbers.limit = now.limit;
  numbers.remaining = now.remaining;
  numbers.peak = now.peak;
  return numbers;
}

budget_statistics budget::statistics() const noexcept {
  budget_statistics now;
  now.limit = limit_.load();
  now.current = current_.load();
  now.remaining = rest(now.limit, now.current);
  now.peak = peak_.load();
  now.requests = requests_.load();
  now.refused = refused_.load();
  return now;
}

void budget::reset_peak() noexcept {
  peak_.store(current_.load());
  raise_to(peak_, current_.load()); // a charge between the two lines must not be forgotten
}

void budget::set_limit(std::uint64_t limit) {
  const std::uint64_t before = limit_.exchange(limit);
  const std::uint64_t live = current_.load();
  if (live > limit) {
    limit_.store(before);
    throw error(errc::invalid_argument,
                concat("budget of ", name_, " can't be set to ", limit, " bytes: ", live, " bytes are live"));
  }
}

block budget_resource::allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) {
  for (std::size_t attempt = 0; !budget_->try_charge(bytes); ++attempt) {
    if (!relief_ || !relief_(attempt)) {
      throw error(budget_->refuse(bytes));
    }
  }
  try {
    return upstream_->allocate(bytes, alignment, stream);
  } catch (...) {
    budget_->refund(bytes);
    throw;
  }
}

bool budget_resource::deallocate(const block& what, stream_ref stream) noexcept {
  if (!upstream_->deallocate(what, stream)) {
    return false;
  }
  budget_->refund(what.bytes);
  return true;
}

} // namespace saeta
