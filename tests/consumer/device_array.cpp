// Imports a hand-made Arrow array into a context through the C Device Data Interface, and exports it again.
#include "saeta/interop/arrow/abi.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/runtime/runtime.hpp"

#include <array>
#include <cstdint>
#include <exception>
#include <iostream>

namespace {

std::array<std::int64_t, 3> values{7, 8, 9};
std::array<const void*, 2> buffers{nullptr, values.data()};

ArrowDeviceArray lend() {
  ArrowDeviceArray made{};
  made.array.length = values.size();
  made.array.n_buffers = buffers.size();
  made.array.buffers = buffers.data();
  made.array.release = [](ArrowArray* ended) { ended->release = nullptr; };
  made.device_id = -1;
  made.device_type = ARROW_DEVICE_CPU;
  return made;
}

} // namespace

int main() {
  try {
    const auto ctx = saeta::open_context(saeta::device_id());
    const saeta::field described{"values", saeta::data_type(saeta::type_id::int64), true, {}};
    ArrowDeviceArray lent = lend();
    const saeta::column taken = saeta::import_device_column(ctx, described, lent);
    saeta::arrow_device_array shown = saeta::export_device_column(taken);
    const ArrowArray& array = shown.get().array;
    const bool same = array.length == 3 && static_cast<const std::int64_t*>(array.buffers[1])[2] == 9;
    return same ? 0 : 1;
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
