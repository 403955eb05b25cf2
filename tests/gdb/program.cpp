// Values of each kind for gdb to print: tests/gdb/test_printers.py stops in `stop_here`.
#include "saeta/budget/tree.hpp"
#include "saeta/column/table.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/runtime/runtime.hpp"

using namespace saeta;

[[gnu::noinline]] void stop_here(const table& rows, const column& fare, const buffer& absent,
                                 const budget& limited) {
  asm volatile("" : : "r"(&rows), "r"(&fare), "r"(&absent), "r"(&limited) : "memory");
}

int main() {
  const auto process = open_context({device_kind::cpu, 0});
  const auto ctx = process->with_budget("query", 1 << 20);
  const auto values = buffer::allocate(ctx, 100 * sizeof(double), ctx->work_stream(), "fares");
  const data_type float64(type_id::float64);
  const column fare = column::make(ctx, {float64, 100, 0, 0, {{}, values}, {}});
  const column part = fare.slice(10, 20);
  const table rows = table::make(ctx, {{{"fare", float64, false, {}}, {"tip", float64, true, {}}}, {}},
                                 {{20, {part, part}}});
  stop_here(rows, part, buffer(), *ctx->memory_budget());
}
