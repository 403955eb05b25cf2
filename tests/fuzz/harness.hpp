// What the fuzzers share: contexts, promises that end the program when they are broken, and types and arrays
// drawn from the input.
//
// What      Each fuzzer turns its input into an object that a producer might hand over, broken in ways that a
//           consumer can detect, and imports it. A broken promise of ours, a crash and a leak are findings;
//           an error with a code that is meant for bad input is not.
// Owner     The contexts live as long as the process; a fuzzer gives back everything else before it returns.
// Thread    One; the simulated device runs its work inside of the calls that wait for it.
#pragma once

#include "saeta/backend/sim/sim.hpp"
#include "saeta/column/column.hpp"
#include "saeta/column/table.hpp"
#include "support/arrays.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <fuzzer/FuzzedDataProvider.h>

namespace saeta::fuzz {

using input = FuzzedDataProvider;

/// Ends the program: libFuzzer keeps the input and prints the text.
void require(bool holds, std::string_view promise);

/// The error is one that bad input may cause: nothing broke on our side.
void require_input_error(const error& failure);

/// Likewise, where the input may also ask for more memory than the small device has.
void require_input_or_memory_error(const error& failure);

std::shared_ptr<context> host_context();

/// A simulated device with a context. It is made anew now and then, because its journal grows with every
/// operation. Several inputs use one, because making it takes longer than most inputs.
struct simulation {
  std::shared_ptr<sim::device> device;
  std::shared_ptr<context> ctx;
};

/// The one for the next input.
const simulation& simulated_device();

/// Ends the program when a race was found on the simulated device, or something of the input is alive there.
void require_clean(const simulation& used);

/// Calls `run` with the context of a simulated device, which must be clean afterwards, or with that of the
/// host, as the input says.
template <class Run>
void run_on_any_device(input& from, Run run) {
  if (from.ConsumeBool()) {
    const simulation& machine = simulated_device();
    run(machine.ctx);
    require_clean(machine);
  } else {
    run(host_context());
  }
}

/// A copy in memory of the context; absent if there are no bytes.
buffer bytes_in(const std::shared_ptr<context>& ctx, std::span<const std::byte> bytes);

/// Rows beyond this number are not looked at one by one. Rows of a null column take no bytes, so an input can
/// have any number of them.
inline constexpr std::int64_t many_rows = 100'000;

/// Whether no batch has many rows.
bool has_few_rows(const table& read);

/// After the last user of everything that was imported: every release has happened when it returns.
void settle(context& ctx);

/// Any type that a column can have, nested at most `levels` deep above the simple ones.
data_type draw_type(input& from, int levels = 2);

/// An array of few rows whose buffers have exactly the bytes that they need.
support::shared_array draw_array(input& from, const data_type& type);

/// A number for a field of the standard: small, negative, or at the edge of its type.
std::int64_t draw_number(input& from);

} // namespace saeta::fuzz
