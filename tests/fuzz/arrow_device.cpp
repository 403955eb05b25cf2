// Imports arrays of the Arrow C Device Data Interface whose fields are broken, in memory of a simulated
// device.
//
// Only the fields of the structs are broken; the buffers on the device keep their valid contents.
#include "fuzz/foreign_array.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/memory/context.hpp"
#include "support/tables.hpp"

namespace saeta::fuzz {
namespace {

column on_device(const std::shared_ptr<context>& ctx, const support::shared_array& source) {
  arrow_array given = support::to_c(source);
  return import_column(ctx, {"x", source->type, true, {}}, given.get());
}

/// Exports an imported column to the device and to the host, and reads all values if the host import accepts
/// it.
void use(const column& taken) {
  arrow_device_array again = export_device_column(taken);
  const column same = import_device_column(taken.ctx(), {"x", taken.type(), true, {}}, again.get());
  require(same.length() == taken.length(), "an exported column has other rows");
  static_cast<void>(same.null_count());
  arrow_array host = export_column(same);
  try {
    support::cells(import_column(host_context(), {"x", taken.type(), true, {}}, host.get()));
  } catch (const error& failure) {
    require_input_error(failure);
  }
}

void break_device(ArrowDeviceArray& given, input& from) {
  switch (from.ConsumeIntegralInRange<int>(0, 8)) {
  case 0:
    given.device_type = static_cast<std::int32_t>(draw_number(from));
    return;
  case 1:
    given.device_id = draw_number(from);
    return;
  case 2:
    given.sync_event = nullptr; // valid: all work has finished
    return;
  case 3:
    given.reserved[from.ConsumeIntegralInRange<int>(0, 2)] = draw_number(from);
    return;
  default:
    return;
  }
}

void import_one(const std::shared_ptr<context>& machine, input& from) {
  const data_type type = draw_type(from);
  const column sound = on_device(machine, draw_array(from, type));
  arrow_device_array exported = export_device_column(sound);
  machine->synchronize(machine->work_stream());
  foreign_array source(type, exported.get().array);
  for (int breaks = from.ConsumeIntegralInRange<int>(0, 3); breaks > 0; --breaks) {
    source.break_field(from);
  }
  ArrowDeviceArray given = exported.get();
  given.array = source.get();
  break_device(given, from);
  const std::shared_ptr<context> ctx = from.ConsumeIntegral<std::uint8_t>() < 16 ? host_context() : machine;
  try {
    use(import_device_column(ctx, {"x", type, true, {}}, given));
    require(given.array.release == nullptr, "an imported array was left with its owner");
  } catch (const error& failure) {
    require_input_error(failure);
    source.give_back(given.array);
  }
  settle(*ctx);
  settle(*machine);
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  input from(data, size);
  const simulation& machine = simulated_device();
  import_one(machine.ctx, from);
  require_clean(machine);
  return 0;
}
