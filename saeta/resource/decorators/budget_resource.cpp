#include "saeta/resource/decorators/budget_resource.hpp"

#include "saeta/budget/reservation.hpp"

#include <utility>

namespace saeta {

block budget_resource::do_allocate(const allocation_request& what, stream_ref stream) {
  if (what.draw_from != nullptr) {
    if (auto refused = what.draw_from->draw_or_refuse(what.bytes)) {
      throw error(std::move(*refused));
    }
    try {
      return ask_upstream(what, stream, *what.draw_from->from());
    } catch (...) {
      what.draw_from->put_back(what.bytes);
      throw;
    }
  }
  budget& from = what.charge_to != nullptr ? *what.charge_to : *budget_;
  charge(what.bytes, from);
  try {
    return ask_upstream(what, stream, from);
  } catch (...) {
    from.refund(what.bytes);
    throw;
  }
}

void budget_resource::charge(std::uint64_t bytes, budget& from) {
  if (from.try_charge(bytes)) [[likely]] {
    return;
  }
  shortage missing(bytes, &from);
  for (; relief_ && relief_(missing); ++missing.attempt) {
    if (missing.charged || from.try_charge(bytes)) {
      return;
    }
  }
  // The last attempt has to be the one that is refused: between an attempt and a look at the numbers others may free.
  if (auto refused = from.charge_or_refuse(bytes)) {
    throw error(std::move(*refused));
  }
}

block budget_resource::ask_upstream(const allocation_request& what, stream_ref stream, budget& charged) {
  block made = ask_upstream(what, stream);
  made.charged = &charged;
  return made;
}

block budget_resource::ask_upstream(const allocation_request& what, stream_ref stream) {
  shortage missing(what.bytes, nullptr);
  for (;; ++missing.attempt) {
    try {
      return upstream().allocate(what, stream);
    } catch (const error& e) {
      if (e.code() != errc::out_of_memory || !relief_ || !relief_(missing)) {
        throw;
      }
    }
  }
}

bool budget_resource::do_deallocate(const block& what, std::span<const point> after) noexcept {
  if (!upstream().deallocate(what, after)) {
    return false;
  }
  if (what.charged != nullptr) {
    what.charged->refund(what.bytes);
  }
  return true;
}

} // namespace saeta
