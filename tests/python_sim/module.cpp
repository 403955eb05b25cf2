// A Python module for tests, never installed: contexts on simulated devices, which detect data races, and
// delayed work of a simulated foreign library on streams that Saeta does not know.
#include "python/src/arrow/capsules.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/backend/sim/sim.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

namespace saeta::py {
namespace {

/// Delayed work of a foreign library: a closed gate holds the stream back, and a thread opens it after
/// `seconds`.
class late_work {
public:
  late_work(std::shared_ptr<sim::device> on, double seconds) : device_(std::move(on)), stream_(device_) {
    gate_ = device_->close_gate(stream_.native_handle());
    opening_ = std::thread([this, seconds] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      gate_->open();
    });
  }
  ~late_work() { opening_.join(); }

  void fill(void* target, std::size_t bytes, int value) {
    device_->launch(stream_.native_handle(), "late fill", {}, {{target, bytes}},
                    [=] { std::memset(target, value, bytes); });
  }
  void read(const void* source, std::size_t bytes) {
    device_->launch(stream_.native_handle(), "late read", {{source, bytes}}, {},
                    [this, source, bytes] { seen_.assign(static_cast<const char*>(source), bytes); });
  }
  /// Waits for `read` and returns the bytes that it has read.
  std::string seen() {
    device_->synchronize_stream(stream_.native_handle());
    return seen_;
  }

private:
  std::shared_ptr<sim::device> device_;
  stream stream_;
  std::unique_ptr<sim::hold> gate_;
  std::thread opening_;
  std::string seen_;
};

/// The limits of page-locked and pageable memory in bytes, and the spill folder.
using tiers_of_test = std::tuple<std::uint64_t, std::uint64_t, std::string>;

struct simulated {
  simulated(std::int32_t ordinal, const simulated* beside, bool exportable, bool peers,
            const std::optional<tiers_of_test>& tiers, double seconds_per_mib) {
    sim::options chosen;
    chosen.ordinal = ordinal;
    chosen.how = sim::pace::automatic;
    chosen.peers = peers;
    chosen.time_per_mib =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds_per_mib));
    chosen.beside = beside == nullptr ? nullptr : beside->device;
    device = sim::device::create(chosen);
    context_options options;
    options.memory.exportable_pool = exportable;
    if (tiers) {
      std::tie(options.spill.pinned, options.spill.pageable, options.spill.folder) = *tiers;
    }
    ctx = context::create(device, options);
  }

  std::shared_ptr<sim::device> device;
  std::shared_ptr<context> ctx;
};

/// Whether each watched release held the GIL. pylibcudf's release callback drops Python objects, so it needs
/// the GIL.
std::vector<bool> releases_with_gil;

/// Replaces the release callback of the array in a capsule by one that records whether it holds the GIL.
void watch_release(nb::handle capsule) {
  auto* const watched =
      static_cast<ArrowDeviceArray*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_device_array"));
  auto* const original = new ArrowArray(watched->array);
  watched->array.private_data = original;
  watched->array.release = [](ArrowArray* array) {
    releases_with_gil.push_back(PyGILState_Check() != 0);
    const std::unique_ptr<ArrowArray> inner(static_cast<ArrowArray*>(array->private_data));
    inner->release(inner.get());
    array->release = nullptr;
  };
}

std::vector<bool> watched_releases() { return std::exchange(releases_with_gil, {}); }

std::vector<std::string> races(const simulated& of) {
  std::vector<std::string> found;
  for (const sim::race& each : of.device->races()) {
    found.push_back(each.text);
  }
  return found;
}

} // namespace
} // namespace saeta::py

NB_MODULE(saeta_sim, m) {
  using namespace saeta;
  using namespace saeta::py;
  nb::set_leak_warnings(false);
  nb::module_::import_("saeta._core");
  nb::class_<late_work>(m, "LateWork").def("seen", [](late_work& self) {
    const std::string bytes = without_gil([&] { return self.seen(); });
    return nb::bytes(bytes.data(), bytes.size());
  });
  m.def("watch_release", &watch_release);
  m.def("watched_releases", &watched_releases);
  nb::class_<simulated>(m, "Device")
      .def(
          nb::init<std::int32_t, const simulated*, bool, bool, const std::optional<tiers_of_test>&, double>(),
          nb::arg("ordinal") = 0, nb::arg("beside").none() = nb::none(), nb::arg("exportable") = false,
          nb::arg("peers") = true, nb::arg("tiers").none() = nb::none(), nb::arg("seconds_per_mib") = 0.0)
      .def_prop_ro("context", [](const simulated& self) { return context_object{self.ctx}; })
      .def_prop_ro("races", &races)
      .def(
          "fill_late",
          [](const simulated& self, std::uintptr_t address, std::size_t bytes, int value, double seconds) {
            auto work = std::make_unique<late_work>(self.device, seconds);
            work->fill(reinterpret_cast<void*>(address), bytes, value);
            return work;
          },
          nb::call_guard<gil_release>())
      .def(
          "read_late",
          [](const simulated& self, std::uintptr_t address, std::size_t bytes, double seconds) {
            auto work = std::make_unique<late_work>(self.device, seconds);
            work->read(reinterpret_cast<const void*>(address), bytes);
            return work;
          },
          nb::call_guard<gil_release>());
}
