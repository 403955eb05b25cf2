#include "torch_allocator.hpp"

#include "gil.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/lent_memory.hpp"

#include <array>
#include <mutex>
#include <utility>

namespace saeta::py {
namespace {

struct served {
  std::shared_ptr<context> where;
  tag label;
};

struct served_devices {
  std::mutex mutex;
  std::array<served, 64> by_ordinal; ///< torch's own limit
};

/// Never destroyed: torch frees as late as any other code.
served_devices& devices() {
  static constinit per_process<served_devices> all;
  return all.get();
}

served& at(served_devices& all, std::int32_t ordinal) {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= all.by_ordinal.size()) {
    throw error(errc::out_of_range,
                concat("device ", ordinal, " of torch is none of 0 to ", all.by_ordinal.size() - 1));
  }
  return all.by_ordinal[static_cast<std::size_t>(ordinal)];
}

served serving(std::int32_t ordinal) {
  served_devices& all = devices();
  const std::lock_guard lock(all.mutex);
  served found = at(all, ordinal);
  if (found.where == nullptr) {
    throw error(errc::invalid_argument, concat("no context serves torch's device cuda:", ordinal,
                                               ": call saeta.allocators.torch_allocator for it"));
  }
  return found;
}

/// torch's stream 0 is the legacy default stream.
stream_handle handle_of(void* stream) noexcept {
  return stream == nullptr ? legacy_stream : stream_handle{reinterpret_cast<std::uintptr_t>(stream)};
}

void* allocate(std::size_t bytes, std::int32_t ordinal, void* stream) {
  const served from = serving(ordinal);
  return lend_memory(from.where, bytes,
                     from.where->on_host() ? from.where->work_stream()
                                           : stream_ref(*from.where->device_backend(), handle_of(stream)),
                     from.label);
}

} // namespace

void serve_torch(std::shared_ptr<context> where, std::int32_t ordinal, tag label) {
  served_devices& all = devices();
  served replaced{std::move(where), label};
  const std::lock_guard lock(all.mutex);
  std::swap(at(all, ordinal), replaced);
}

} // namespace saeta::py

extern "C" {

void* saeta_torch_allocate(ssize_t bytes, int device, void* stream) {
  return saeta::py::released_gil(
      [&] { return saeta::py::allocate(static_cast<std::size_t>(bytes), device, stream); });
}

void saeta_torch_free(void* address, ssize_t bytes, int /*device*/, void* stream) noexcept {
  saeta::py::released_gil([&] {
    saeta::take_back_memory(address, static_cast<std::size_t>(bytes), saeta::py::handle_of(stream));
  });
}

void saeta_torch_record_stream(void* address, void* stream) noexcept {
  saeta::py::released_gil([&] { saeta::note_lent_use(address, saeta::py::handle_of(stream)); });
}
}
