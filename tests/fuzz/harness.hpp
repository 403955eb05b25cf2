// Common parts of the fuzzers: contexts, assertions that end the program, and types and arrays that are drawn
// from the fuzzer's input.
//
// Findings  Each fuzzer turns its input into an object of a producer, broken in ways that a consumer can
//           detect, and imports it. Failed assertions, crashes and leaks are findings. An error with a code
//           for bad input is not.
// Owner     The contexts live as long as the process. A fuzzer releases everything else before it returns.
// Thread    One. The simulated device runs its work inside of the calls that wait for it.
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

/// Aborts the program unless `holds`, which libFuzzer reports as a finding. `promise` is printed.
void require(bool holds, std::string_view promise);

/// Aborts unless the error has a code that bad input may cause.
void require_input_error(const error& failure);

/// Like require_input_error, but also allows errors about memory, for inputs that may request any amount.
void require_input_or_memory_error(const error& failure);

std::shared_ptr<context> host_context();

/// A simulated device with a context.
struct simulation {
  std::shared_ptr<sim::device> device;
  std::shared_ptr<context> ctx;
};

/// Returns the device for the next input. 100 inputs share a device, because creating one takes longer than
/// most inputs; then it is replaced, because its journal grows with every operation.
const simulation& simulated_device();

/// Aborts if the simulated device has detected a race, or if a buffer of its context has not been freed.
void require_clean(const simulation& used);

/// Calls `run` with the context of a simulated device or of the host, as chosen by the input. Checks the
/// simulated device afterwards (require_clean).
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

/// Copies bytes into memory of the context. Returns an absent buffer if there are none.
buffer bytes_in(const std::shared_ptr<context>& ctx, std::span<const std::byte> bytes);

/// Tables with more rows than this are not compared row by row. Rows of a null column take no bytes, so a
/// small input can have any number of rows.
inline constexpr std::int64_t many_rows = 100'000;

/// Returns whether no batch has more than `many_rows` rows.
bool has_few_rows(const table& read);

/// Waits until the release callbacks of all dropped imports have been called.
void settle(context& ctx);

/// Draws any supported type with at most `levels` levels of nesting.
data_type draw_type(input& from, int levels = 2);

/// Draws an array of few rows. Its buffers have exactly the bytes that they need.
support::shared_array draw_array(input& from, const data_type& type);

/// Draws a number for a field of an Arrow or DLPack struct: small, negative, or at the limit of an integer
/// type.
std::int64_t draw_number(input& from);

} // namespace saeta::fuzz
