// Imports broken arrays of the Arrow C Data Interface into a context of the host or of a simulated device.
#include "fuzz/foreign_array.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/memory/context.hpp"
#include "support/tables.hpp"

namespace saeta::fuzz {
namespace {

/// Checks that an imported column keeps its values in an export and a second import. Child rows that no list
/// refers to are not checked and may be broken. The second import may reject them if the export begins with
/// one.
void require_round_trip(const column& taken, bool sound) {
  const auto rows = support::cells(taken);
  require(rows.size() == static_cast<std::size_t>(taken.length()), "a column has other rows than its length");
  arrow_array again = export_column(taken);
  try {
    const column back = import_column(host_context(), {"x", taken.type(), true, {}}, again.get());
    require(support::cells(back) == rows, "a second import has other values");
  } catch (const error& failure) {
    require(!sound, concat("an exported column is refused: ", failure.what()));
    require_input_error(failure);
  }
}

/// Breaks 0 to 3 fields. Returns whether any was broken.
bool break_some(foreign_array& source, input& from) {
  const int breaks = from.ConsumeIntegralInRange<int>(0, 3);
  for (int i = 0; i < breaks; ++i) {
    source.break_field(from);
  }
  return breaks != 0;
}

void import_one(const std::shared_ptr<context>& ctx, input& from) {
  const data_type type = draw_type(from);
  const auto copy =
      from.PickValueInArray({copy_policy::when_needed, copy_policy::always, copy_policy::never});
  foreign_array source(*draw_array(from, type));
  const bool sound = !break_some(source, from);
  ArrowArray given = source.get();
  try {
    const column taken = import_column(ctx, {"x", type, true, {}}, given, {.copy = copy});
    require(given.release == nullptr, "an imported array was left with its owner");
    require_round_trip(taken, sound);
  } catch (const error& failure) {
    require_input_error(failure);
    source.give_back(given);
  }
  settle(*ctx);
}

void import_rows(const std::shared_ptr<context>& ctx, input& from) {
  schema fields;
  std::vector<support::shared_array> arrays;
  std::int64_t rows = 40;
  for (int columns = from.ConsumeIntegralInRange<int>(0, 3); columns > 0; --columns) {
    fields.fields.push_back({"x", draw_type(from, 1), true, {}});
    arrays.push_back(draw_array(from, fields.fields.back().type));
    rows = std::min(rows, arrays.back()->length);
  }
  foreign_array source(arrays, rows);
  const bool sound = !break_some(source, from);
  ArrowArray given = source.get();
  try {
    dictionary_cache dictionaries;
    const batch taken = import_batch(ctx, fields, given, dictionaries);
    require(given.release == nullptr, "an imported batch was left with its owner");
    for (const column& part : taken.columns) {
      require(part.length() == taken.rows, "a column has other rows than its batch");
      require_round_trip(part, sound);
    }
  } catch (const error& failure) {
    require_input_error(failure);
    source.give_back(given);
  }
  settle(*ctx);
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  input from(data, size);
  const bool batches = from.ConsumeBool();
  run_on_any_device(from, [&](const std::shared_ptr<saeta::context>& ctx) {
    batches ? import_rows(ctx, from) : import_one(ctx, from);
  });
  return 0;
}
