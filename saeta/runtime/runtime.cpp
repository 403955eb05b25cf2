#include "saeta/runtime/runtime.hpp"

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/runtime/environment.hpp"

#if SAETA_HAS_CUDA
#include "saeta/backend/cuda/cuda_backend.hpp"
#endif

#include <map>
#include <mutex>
#include <utility>

namespace saeta {
namespace {

/// One device's place in the registry. Its lock is held while the context is made, so that racing first users get one
/// and a device that takes long to start holds up nobody else's.
struct slot {
  std::mutex mutex;
  std::shared_ptr<context> opened;
};

class registry {
public:
  slot& at(device_id device) {
    const std::lock_guard lock(mutex_);
    return slots_[{device.kind, device.ordinal}];
  }

private:
  std::mutex mutex_;
  std::map<std::pair<device_kind, std::int32_t>, slot> slots_;
};

/// Never destroyed: consumers give memory back from their own static destructors and from an interpreter's last breath,
/// after main has returned, and the driver frees what is left when the process ends.
registry& contexts() {
  static registry* const all = new registry;
  return *all;
}

constexpr device_id host{device_kind::cpu, 0};

#if SAETA_HAS_CUDA

std::int32_t cuda_devices() noexcept { return cuda_device_count(); }

std::shared_ptr<backend> make_cuda(std::int32_t ordinal) { return make_cuda_backend(ordinal); }

std::string cuda_version(std::int32_t number) {
  return number == 0 ? std::string{} : concat(number / 1000, ".", number % 1000 / 10);
}

runtime_report describe_cuda() {
  const cuda_status status = probe_cuda();
  runtime_report found;
  found.built_with_cuda = true;
  found.cuda_usable = status.usable;
  found.cuda_missing = status.reason;
  found.cuda_runtime = cuda_version(status.runtime_version);
  found.cuda_driver = cuda_version(status.driver_version);
  return found;
}

#else

constexpr const char* no_cuda = "this build has no CUDA backend: no CUDA toolkit was found when it was "
                                "configured; install one and build again";

std::int32_t cuda_devices() noexcept { return 0; }

std::shared_ptr<backend> make_cuda(std::int32_t) { throw error(errc::device, no_cuda); }

runtime_report describe_cuda() {
  runtime_report found;
  found.cuda_missing = no_cuda;
  return found;
}

#endif

std::vector<device_id> device_ids() {
  const std::int32_t count = cuda_devices();
  std::vector<device_id> found;
  found.reserve(static_cast<std::size_t>(count) + 1);
  for (std::int32_t ordinal = 0; ordinal < count; ++ordinal) {
    found.push_back({device_kind::cuda, ordinal});
  }
  found.push_back(host);
  return found;
}

[[noreturn]] void refuse_device(device_id device) {
  std::string there;
  for (const device_id id : device_ids()) {
    there += concat(there.empty() ? "" : ", ", to_string(id));
  }
  const std::string missing = device.kind == device_kind::cuda ? describe_cuda().cuda_missing : std::string{};
  // Messages call the host by its kind alone; here the ordinal is what is wrong with it.
  const std::string name =
      device.kind == host.kind ? concat(to_string(host), ":", device.ordinal) : to_string(device);
  throw error(errc::device, concat("there is no device ", name, "; devices here: ", there,
                                   missing.empty() ? "" : concat(" (", missing, ")")));
}

std::shared_ptr<backend> make_backend(device_id device) {
  if (device == host) {
    return make_host_backend();
  }
  if (device.kind == device_kind::cuda && device.ordinal >= 0 && device.ordinal < cuda_devices()) {
    return make_cuda(device.ordinal);
  }
  refuse_device(device);
}

std::shared_ptr<context> make_context(device_id device, std::optional<std::uint64_t> budget) {
  std::shared_ptr<backend> made = make_backend(device);
  const environment_options defaults = read_environment(made->properties().total_bytes);
  context_options options;
  options.budget = budget.value_or(defaults.budget);
  options.resource = defaults.resource;
  return context::create(std::move(made), options);
}

} // namespace

std::vector<device_entry> devices() {
  std::vector<device_entry> found;
  for (const device_id id : device_ids()) {
    try {
      const std::shared_ptr<context> open = find_context(id);
      found.push_back({id, (open ? open->device_backend() : make_backend(id))->properties()});
    } catch (const error&) {
      report_current_exception(concat("device ", to_string(id), " is left out"));
    }
  }
  return found;
}

runtime_report describe_runtime() { return describe_cuda(); }

device_id best_device() { return device_ids().front(); }

std::shared_ptr<context> open_context(device_id device, std::optional<std::uint64_t> budget) {
  slot& place = contexts().at(device);
  const std::lock_guard lock(place.mutex);
  // A closed context refuses work for ever, so the device gets a new one; what still lives stays on the old one's budget.
  if (place.opened == nullptr || place.opened->closed()) {
    place.opened = make_context(device, budget);
  } else if (budget) {
    place.opened->memory_budget()->set_limit(*budget);
  }
  return place.opened;
}

std::shared_ptr<context> find_context(device_id device) {
  slot& place = contexts().at(device);
  const std::lock_guard lock(place.mutex);
  return place.opened != nullptr && !place.opened->closed() ? place.opened : nullptr;
}

} // namespace saeta
