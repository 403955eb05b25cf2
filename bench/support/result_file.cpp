#include "support/result_file.hpp"

#include "saeta/base/version.hpp"
#include "saeta/runtime/runtime.hpp"
#include "support/quantile.hpp"

#include <fstream>

namespace saeta::bench {

json_object describe_run(std::string_view benchmark, const run_options& run, device_id measured,
                         const version_map& versions) {
  std::vector<json_object> machine;
  for (const device_entry& entry : devices()) {
    machine.emplace_back()
        .add("id", to_string(entry.id))
        .add("name", entry.properties.name)
        .add("architecture", entry.properties.architecture)
        .add("driver", entry.properties.driver)
        .add("total_bytes", entry.properties.total_bytes)
        .add("multiprocessors", entry.properties.multiprocessors);
  }
  const runtime_report report = describe_runtime();
  json_object named;
  named.add("saeta", version).add("compiler", __VERSION__);
  if (!report.cuda_runtime.empty()) {
    named.add("cuda_runtime", report.cuda_runtime);
  }
  for (const auto& [library, number] : versions) {
    named.add(library, number);
  }
  json_object begun;
  begun.add("benchmark", benchmark)
      .add("commit", run.commit)
      .add("command", run.command)
      .add("versions", named)
      .add("devices", machine)
      .add("device", to_string(measured));
  return begun;
}

void add_quantiles(json_object& to, const std::vector<double>& nanoseconds) {
  to.add("batches", nanoseconds.size())
      .add("p10_ns", quantile(nanoseconds, 0.1))
      .add("p50_ns", quantile(nanoseconds, 0.5))
      .add("p90_ns", quantile(nanoseconds, 0.9))
      .add("p99_ns", quantile(nanoseconds, 0.99));
}

void write_result(const run_options& run, const json_object& result) {
  if (run.out.empty()) {
    return;
  }
  std::ofstream out(run.out);
  out << result.lines() << '\n';
  out.close();
  if (!out) {
    throw error(errc::io, concat("can't write ", run.out));
  }
}

} // namespace saeta::bench
