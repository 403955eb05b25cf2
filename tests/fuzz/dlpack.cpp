// Imports DLPack tensors, legacy and versioned, with any field changed. An accepted tensor must have the
// values that this program computes from its fields, all inside of the tensor's memory.
#include "saeta/interop/dlpack/dlpack.hpp"

#include "fuzz/harness.hpp"
#include "saeta/memory/context.hpp"
#include "support/dlpack_tensors.hpp"
#include "support/tables.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <vector>

namespace saeta::fuzz {
namespace {

using support::lent_tensor;

constexpr std::size_t room = 512; ///< bytes of the tensor's memory
/// The largest `ndim` that an import accepts. `shape` and `strides` carry no size, so they have this many
/// entries.
constexpr std::size_t dimensions = 64;

/// Returns the offset of each row's value in `memory`, or nullopt if a value is outside of it.
std::optional<std::vector<std::int64_t>> places(const DLTensor& tensor, const std::byte* memory) {
  std::vector<std::int64_t> found;
  const auto width = static_cast<__int128>(tensor.dtype.bits / 8);
  const auto start = static_cast<__int128>(reinterpret_cast<std::uintptr_t>(tensor.data)) +
                     static_cast<__int128>(tensor.byte_offset) -
                     static_cast<__int128>(reinterpret_cast<std::uintptr_t>(memory));
  const std::int64_t rows = tensor.shape[0];
  const auto step = static_cast<__int128>(tensor.strides == nullptr ? 1 : tensor.strides[0]) * width;
  for (std::int64_t row = 0; row < rows; ++row) {
    const __int128 at = start + step * row;
    if (at < 0 || at + width > static_cast<__int128>(room)) {
      return std::nullopt;
    }
    found.push_back(static_cast<std::int64_t>(at));
  }
  return found;
}

/// Compares a column with the bytes at these offsets. Booleans compare by truth: a copying import makes them
/// 0 or 1.
void require_values(const column& taken, const std::vector<std::int64_t>& at, const std::byte* memory) {
  const auto cells = support::cells(taken);
  require(cells.size() == at.size(), "an imported tensor has other rows than its shape");
  for (std::size_t row = 0; row < at.size(); ++row) {
    const auto width = static_cast<std::size_t>(taken.type().byte_width());
    std::string expected(reinterpret_cast<const char*>(memory) + at[row], width);
    std::string seen = cells[row].value();
    if (taken.type().is_bool8()) {
      expected[0] = expected[0] != 0 ? 1 : 0;
      seen[0] = seen[0] != 0 ? 1 : 0;
    }
    require(seen == expected, "an imported tensor has other values");
  }
}

template <class Managed>
void export_again(const column& taken, input& from) {
  dlpack_export how{
      .stream = from.ConsumeBool() ? std::optional<std::int64_t>(draw_number(from)) : std::nullopt,
      .copy = from.PickValueInArray({copy_policy::when_needed, copy_policy::always, copy_policy::never})};
  if (!taken.ctx()->on_host() && how.stream && *how.stream > 2) {
    how.stream = 1; // larger numbers are stream handles, which can't be validated
  }
  try {
    if constexpr (std::is_same_v<Managed, DLManagedTensor>) {
      support::held_tensor<Managed>(export_dlpack_legacy(taken, how));
    } else {
      support::held_tensor<Managed>(export_dlpack(taken, how));
    }
  } catch (const error& failure) {
    if (failure.code() != errc::invalid_argument) { // the code for a number that is not a stream
      require_input_error(failure);
    }
  }
}

void break_field(DLTensor& tensor, input& from, std::byte* memory) {
  switch (from.ConsumeIntegralInRange<int>(0, 11)) {
  case 0:
    tensor.data = from.ConsumeBool() ? nullptr : memory + from.ConsumeIntegralInRange<std::size_t>(0, room);
    return;
  case 1:
    tensor.device.device_type =
        static_cast<DLDeviceType>(from.PickValueInArray({0, 1, 2, 3, 4, 12, 13, 99, -1}));
    return;
  case 2:
    tensor.device.device_id = static_cast<std::int32_t>(draw_number(from));
    return;
  case 3:
    tensor.ndim = static_cast<std::int32_t>(draw_number(from));
    return;
  case 4:
    tensor.dtype.code = from.ConsumeIntegral<std::uint8_t>();
    return;
  case 5:
    tensor.dtype.bits = from.ConsumeIntegral<std::uint8_t>();
    return;
  case 6:
    tensor.dtype.lanes = from.ConsumeIntegral<std::uint16_t>();
    return;
  case 7:
    tensor.shape = nullptr;
    return;
  case 8:
    tensor.strides = nullptr;
    return;
  case 9:
    tensor.byte_offset = static_cast<std::uint64_t>(draw_number(from));
    return;
  case 10:
    if (tensor.shape != nullptr) {
      tensor.shape[0] = draw_number(from);
    }
    return;
  default:
    if (tensor.strides != nullptr) {
      tensor.strides[0] = draw_number(from);
    }
  }
}

/// Returns false for a tensor whose shape exceeds its memory: it carries no size, so no consumer can detect
/// that.
bool is_checkable(const DLTensor& tensor, const std::byte* memory) {
  const bool sized =
      tensor.ndim >= 1 && tensor.shape != nullptr && tensor.shape[0] > 0 && tensor.data != nullptr;
  constexpr std::int64_t few = 1 << 16; // exceeds the memory with any type
  return !sized || (tensor.shape[0] < few && places(tensor, memory));
}

template <class Managed>
void import_one(const std::shared_ptr<context>& ctx, input& from) {
  alignas(8) std::array<std::byte, room> memory{};
  const auto filling = from.ConsumeIntegral<std::uint8_t>();
  for (std::size_t i = 0; i < room; ++i) {
    memory[i] = static_cast<std::byte>(i * filling);
  }
  const std::array<DLDataType, 5> types{support::dtype(kDLInt, 32), support::dtype(kDLFloat, 64),
                                        support::dtype(kDLUInt, 8), support::dtype(kDLBool, 8),
                                        support::dtype(kDLFloat, 16)};
  lent_tensor<Managed> lent(memory.data(), from.ConsumeIntegralInRange<std::int64_t>(0, 64),
                            types[from.ConsumeIntegralInRange<std::size_t>(0, types.size() - 1)]);
  std::array<std::int64_t, dimensions> shape;
  std::array<std::int64_t, dimensions> strides;
  shape.fill(1);
  strides.fill(1);
  shape[0] = lent.tensor().shape[0];
  lent.tensor().shape = shape.data();
  lent.tensor().strides = from.ConsumeBool() ? strides.data() : nullptr;
  for (int breaks = from.ConsumeIntegralInRange<int>(0, 4); breaks > 0; --breaks) {
    break_field(lent.tensor(), from, memory.data());
  }
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    if (from.ConsumeIntegral<std::uint8_t>() < 16) {
      lent.get()->version = {from.ConsumeIntegral<std::uint32_t>(), from.ConsumeIntegral<std::uint32_t>()};
    }
    lent.get()->flags = from.ConsumeIntegral<std::uint8_t>();
  }
  if (!is_checkable(lent.tensor(), memory.data())) {
    return;
  }
  dlpack_import how{
      .ready = std::nullopt,
      .copy = from.PickValueInArray({copy_policy::when_needed, copy_policy::always, copy_policy::never})};
  // The memory is on the host. An import can't detect that a tensor which claims to be on its device is not.
  const bool on_device =
      lent.tensor().device.device_type == kDLCUDA || lent.tensor().device.device_type == kDLExtDev;
  if (on_device && !ctx->on_host()) {
    return;
  }
  try {
    const column taken = import_dlpack(ctx, lent.get(), how);
    if (lent.tensor().ndim == 1) {
      require_values(taken, places(lent.tensor(), memory.data()).value(), memory.data());
    } else { // nested lists, each of one value
      require(taken.length() == shape[0], "an imported tensor has other rows than its shape");
    }
    export_again<Managed>(taken, from);
  } catch (const error& failure) {
    require_input_error(failure);
    require(lent.deleted() == 0, "a refused tensor was deleted");
    lent.give_back();
  }
  settle(*ctx);
  require(lent.deleted() == 1, "a tensor was not deleted once");
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  input from(data, size);
  const bool legacy = from.ConsumeBool();
  run_on_any_device(from, [&](const std::shared_ptr<saeta::context>& ctx) {
    legacy ? import_one<DLManagedTensor>(ctx, from) : import_one<DLManagedTensorVersioned>(ctx, from);
  });
  return 0;
}
