// Times single operations of the memory layers: use tokens, fences, resource decorators, budgets and exports.
//
//   costs [--batches N] [--out FILE.json] [--commit TEXT]
//
// Everything runs on one thread. A sample is the mean of a batch of 64 operations. The program prints the
// median and the 99th percentile over all batches, in nanoseconds per operation. The JSON file adds machine,
// versions, commit and command. Runs on the best device, or on the host if there is no device. On the host
// fences cost nothing, because its streams run inline. costs/groups.hpp lists the measurements.

#include "costs/groups.hpp"
#include "saeta/runtime/runtime.hpp"
#include "support/quantile.hpp"
#include "support/result_file.hpp"

#include <iomanip>
#include <iostream>

namespace {

using namespace saeta;
using namespace saeta::bench;

void print(const std::vector<cost>& costs) {
  std::cout << std::left << std::setw(26) << "group" << std::setw(52) << "operation" << std::right
            << std::setw(12) << "p50 ns" << std::setw(12) << "p99 ns" << '\n'
            << std::fixed << std::setprecision(1);
  for (const cost& each : costs) {
    std::cout << std::left << std::setw(26) << each.group << std::setw(52) << each.operation << std::right
              << std::setw(12) << quantile(each.nanoseconds, 0.5) << std::setw(12)
              << quantile(each.nanoseconds, 0.99) << '\n';
  }
}

json_object as_json(const run_options& run, const std::vector<cost>& costs, device_id device) {
  json_object file = describe_run("costs", run, device);
  std::vector<json_object> lines;
  for (const cost& each : costs) {
    add_quantiles(lines.emplace_back().add("group", each.group).add("operation", each.operation),
                  each.nanoseconds);
  }
  return file.add("operations_in_batch", operations_in_batch).add("results", lines);
}

} // namespace

int main(int count, char** arguments) {
  try {
    std::size_t batches = 200;
    command_line line(count, arguments);
    line.read("--batches", batches);
    const run_options run = read_run_options(line);
    line.finish();

    const auto ctx = open_context(best_device());
    cost_recorder recorder(batches);
    measure_tokens(recorder, ctx);
    measure_fences(recorder, ctx);
    measure_decorators(recorder, ctx);
    measure_budgets(recorder, ctx);
    measure_exports(recorder, ctx);
    std::cout << "costs on " << to_string(ctx->device()) << ", p50 over batches of " << operations_in_batch
              << " operations\n";
    print(recorder.costs());
    write_result(run, as_json(run, recorder.costs(), ctx->device()));
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << "costs: " << failure.what() << '\n';
    return 1;
  }
}
