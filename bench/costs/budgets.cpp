#include "costs/groups.hpp"
#include "costs/null_resource.hpp"
#include "saeta/base/text.hpp"

#include <optional>

namespace saeta::bench {
namespace {

constexpr std::uint64_t bytes = 4096;

void require(bool fits) {
  if (!fits) {
    throw error(errc::invalid_argument, "a budget of 2 GiB has no room for a batch");
  }
}

} // namespace

void measure_budgets(cost_recorder& into, const std::shared_ptr<context>& ctx) {
  const auto nothing = [] {};
  const auto root = budget::create("bench", std::uint64_t{2} << 30);
  std::shared_ptr<budget> charged = root;
  for (const int depth : {1, 2, 3}) {
    into.measure("budget", concat("charge and refund, depth ", depth), nothing, [&](std::size_t) {
      require(charged->try_charge(bytes));
      charged->refund(bytes);
    });
    charged = charged->make_child(concat("child ", depth));
  }

  std::optional<reservation> promised;
  const auto reserve = [&] { promised.emplace(reservation::make(root, bytes * operations_in_batch)); };
  into.measure("budget", "draw and refund", reserve, [&](std::size_t) {
    require(promised->try_draw(bytes));
    root->refund(bytes);
  });

  const stream_lease on = ctx->borrow_stream();
  budget_resource memory(std::make_shared<null_resource>(ctx->device_backend()), root);
  into.measure("budget", "allocate from a reservation and free, over nothing", reserve, [&](std::size_t) {
    const block made = memory.allocate({bytes, 0, {}, nullptr, &*promised}, on.ref());
    require(memory.deallocate(made, on.ref()));
  });
  into.measure("budget", "reserve and release", nothing,
               [&](std::size_t) { static_cast<void>(reservation::make(root, bytes)); });
}

} // namespace saeta::bench
