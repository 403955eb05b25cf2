#include "saeta/resource/decorators/budget_resource.hpp"

#include "saeta/base/text.hpp"
#include "saeta/budget/reservation.hpp"

#include <optional>
#include <utility>

namespace saeta {

block budget_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  if (request.draw_from != nullptr) {
    if (auto refused = request.draw_from->draw_or_refuse(request.bytes)) {
      throw error(std::move(*refused));
    }
    try {
      return ask_upstream(request, stream, *request.draw_from->from());
    } catch (...) {
      request.draw_from->put_back(request.bytes);
      throw;
    }
  }
  budget& from = request.charge_to != nullptr ? *request.charge_to : *budget_;
  charge(request.bytes, from);
  try {
    return ask_upstream(request, stream, from);
  } catch (...) {
    from.refund(request.bytes);
    throw;
  }
}

void budget_resource::charge(std::uint64_t bytes, budget& from) {
  if (from.try_charge(bytes)) [[likely]] {
    return;
  }
  shortage missing(bytes, &from);
  if (obtain(missing, relief_, [&] { return from.try_charge(bytes); })) {
    return;
  }
  // Charge again to get the numbers of the moment of refusal: other threads may have freed memory meanwhile.
  if (auto refused = from.charge_or_refuse(bytes)) {
    throw error(std::move(*refused));
  }
}

bool budget_resource::obtain(shortage& missing, const relief& make_room,
                             const std::function<bool()>& attempt) {
  for (; make_room && make_room(missing); ++missing.attempt) {
    if (missing.charged || attempt()) {
      return true;
    }
  }
  if (missing.full->closed()) {
    throw error(errc::closed, concat("a request for ", missing.bytes, " bytes waited for room in ",
                                     missing.full->name(), ", and its budget was closed meanwhile"));
  }
  return false;
}

block budget_resource::ask_upstream(const allocation_request& request, const stream_ref& stream,
                                    budget& charged) {
  block block = ask_upstream(request, stream);
  block.charged = &charged;
  return block;
}

block budget_resource::ask_upstream(const allocation_request& request, const stream_ref& stream) {
  std::optional<shortage> missing; // set only when a request fails
  for (;; ++missing->attempt) {
    try {
      return upstream().allocate(request, stream);
    } catch (const error& e) {
      if (!missing) {
        missing.emplace(request.bytes, nullptr);
      }
      if (e.code() != errc::out_of_memory || !relief_ || !relief_(*missing)) {
        throw;
      }
    }
  }
}

bool budget_resource::do_deallocate(const block& freed, std::span<const point> after) noexcept {
  if (!upstream().deallocate(freed, after)) {
    return false;
  }
  if (freed.charged != nullptr) {
    freed.charged->refund(freed.bytes);
  }
  return true;
}

} // namespace saeta
