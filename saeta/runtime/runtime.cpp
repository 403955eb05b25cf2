#include "saeta/runtime/runtime.hpp"

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "saeta/runtime/environment.hpp"

#if SAETA_HAS_CUDA
#include "saeta/backend/cuda/cuda_backend.hpp"
#endif

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include <unistd.h>

namespace saeta {
namespace {

/// The registry entry of one device. Its lock is held while the context is made. Threads that race for the
/// device get one context, and a device that starts slowly does not delay users of other devices.
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
  void keep(const std::shared_ptr<event_log>& log) {
    const std::lock_guard lock(mutex_);
    logs_.push_back(log);
  }
  void flush_logs() noexcept {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<event_log>& event_log : logs_) {
      if (const auto log = event_log.lock()) {
        log->flush();
      }
    }
  }

  /// The budget that page-locked memory for a device is charged to. It is the budget of the host's context,
  /// and is made before that context if a device is opened first.
  std::shared_ptr<budget> host_budget() {
    const std::lock_guard lock(mutex_);
    if (!host_budget_) {
      const std::uint64_t bytes = make_host_backend()->properties().total_bytes;
      host_budget_ = budget::create(to_string(device_id{}), read_environment(bytes).budget);
      host_budget_taken_ = false;
    }
    return host_budget_;
  }
  /// The budget of a new context of the host.
  /// @throws error invalid_argument if more than `limit` is page-locked already.
  std::shared_ptr<budget> take_host_budget(std::uint64_t limit) {
    const std::lock_guard lock(mutex_);
    if (!host_budget_ || host_budget_taken_) {
      host_budget_ = budget::create(to_string(device_id{}), limit);
    } else {
      host_budget_->set_limit(limit);
    }
    host_budget_taken_ = true;
    return host_budget_;
  }

private:
  std::mutex mutex_;
  std::shared_ptr<budget> host_budget_;
  bool host_budget_taken_ = false;             ///< whether a context of the host has taken the budget
  std::vector<std::weak_ptr<event_log>> logs_; ///< logs that write files named in the environment
  std::map<std::pair<device_kind, std::int32_t>, slot> slots_;
};

/// Never destroyed. Consumers give memory back from their static destructors and from the interpreter's
/// shutdown, after main has returned. The driver frees the rest when the process ends.
registry& contexts() {
  static constinit per_process<registry> all;
  return all.get();
}

/// Contexts are not destroyed at the end of the process, so their log files are flushed explicitly.
void flush_logs_at_exit() {
  [[maybe_unused]] static const int registered = std::atexit([] { contexts().flush_logs(); });
}

constexpr device_id host{device_kind::cpu, 0};

#if SAETA_HAS_CUDA

std::int32_t cuda_devices() { return cuda_device_count(); }

std::shared_ptr<backend> make_cuda(std::int32_t ordinal) { return make_cuda_backend(ordinal); }

device_properties properties_of_cuda(std::int32_t ordinal) { return describe_cuda_device(ordinal); }

std::uintptr_t context_of_cuda(std::int32_t ordinal) { return cuda_driver_context(ordinal); }

std::string cuda_version(std::int32_t number) {
  return number == 0 ? std::string{} : concat(number / 1000, ".", number % 1000 / 10);
}

runtime_report describe_cuda() {
  const cuda_status status = probe_cuda();
  runtime_report report;
  report.built_with_cuda = true;
  report.cuda_usable = status.usable;
  report.cuda_missing = status.reason;
  report.cuda_runtime = cuda_version(status.runtime_version);
  report.cuda_driver = cuda_version(status.driver_version);
  return report;
}

#else

constexpr const char* no_cuda = "this build has no CUDA backend: no CUDA toolkit was found when it was "
                                "configured; install one and build again";

std::int32_t cuda_devices() { return 0; }

std::shared_ptr<backend> make_cuda(std::int32_t) { throw error(errc::device, no_cuda); }

device_properties properties_of_cuda(std::int32_t) { throw error(errc::device, no_cuda); }

std::uintptr_t context_of_cuda(std::int32_t) { throw error(errc::device, no_cuda); }

runtime_report describe_cuda() {
  runtime_report report;
  report.cuda_missing = no_cuda;
  return report;
}

#endif

std::vector<device_id> device_ids() {
  const std::int32_t count = cuda_devices();
  std::vector<device_id> device_ids;
  device_ids.reserve(static_cast<std::size_t>(count) + 1);
  for (std::int32_t ordinal = 0; ordinal < count; ++ordinal) {
    device_ids.push_back({device_kind::cuda, ordinal});
  }
  device_ids.push_back(host);
  return device_ids;
}

[[noreturn]] void refuse_device(device_id device) {
  std::string there;
  for (const device_id id : device_ids()) {
    there += concat(there.empty() ? "" : ", ", to_string(id));
  }
  const std::string missing = device.kind == device_kind::cuda ? describe_cuda().cuda_missing : std::string{};
  // Messages name the host by its kind only, but here the ordinal is wrong.
  const std::string name =
      device.kind == host.kind ? concat(to_string(host), ":", device.ordinal) : to_string(device);
  throw error(errc::device, concat("there is no device ", name, "; available devices: ", there,
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

/// Each context has its own file: "csv:log/memory.csv" becomes "csv:log/memory-cuda0.csv". In a child of fork
/// the process id is added, as in "csv:log/memory-host-4711.csv", because the parent still writes the other
/// file.
std::string sink_of(const std::string& description, device_id device) {
  const std::size_t colon = description.find(':');
  const std::filesystem::path file = description.substr(colon + 1);
  std::string name = to_string(device);
  std::erase(name, ':');
  if (fork_generation() != 0) {
    name += concat("-", ::getpid());
  }
  const std::filesystem::path own =
      file.parent_path() / concat(file.stem().string(), "-", name, file.extension().string());
  return concat(description.substr(0, colon + 1), own.string());
}

std::shared_ptr<context> make_context(device_id device, const open_options& chosen) {
  std::shared_ptr<backend> backend = make_backend(device);
  const environment_options defaults = read_environment(backend->properties().total_bytes);
  context_options options;
  options.budget = chosen.budget.value_or(defaults.budget);
  if (device == host) {
    options.root_budget = contexts().take_host_budget(options.budget);
  } else {
    options.pinned_budget = contexts().host_budget();
  }
  options.memory = defaults.memory;
  if (chosen.stack) {
    parse_stack(*chosen.stack, options.memory);
  }
  options.memory.custom_slabs = chosen.slabs;
  options.memory.exportable_pool = chosen.exportable_pool.value_or(false);
  options.recorded = defaults.recorded;
  options.staging = defaults.staging;
  options.host_cache = defaults.host_cache;
  options.spill = defaults.spill;
  options.pressure.wait = chosen.wait.value_or(defaults.wait);
  auto opened = context::create(std::move(backend), std::move(options));
  for (const std::string& sink : defaults.log) {
    opened->reports().log()->attach(make_sink(sink_of(sink, device)));
  }
  if (!defaults.log.empty()) {
    contexts().keep(opened->reports().log());
    flush_logs_at_exit();
  }
  return opened;
}

/// Checks that the options fixed at creation are those of the existing context.
void require_same(const context& opened, const open_options& chosen) {
  const context_options& has = opened.options();
  if (chosen.stack) {
    stack_options wanted = has.memory;
    parse_stack(*chosen.stack, wanted);
    if (to_string(wanted) != to_string(has.memory)) {
      throw error(errc::invalid_argument,
                  concat("the context of ", to_string(opened.device()), " already exists with the stack '",
                         to_string(has.memory), "', not '", *chosen.stack, "'; close it first"));
    }
  }
  if (chosen.wait && *chosen.wait != has.pressure.wait) {
    throw error(errc::invalid_argument,
                concat("the context of ", to_string(opened.device()), " already exists with a wait of ",
                       has.pressure.wait.count(), " ms, not ", chosen.wait->count(), " ms; close it first"));
  }
  if (chosen.exportable_pool && *chosen.exportable_pool != has.memory.exportable_pool) {
    throw error(errc::invalid_argument,
                concat("the context of ", to_string(opened.device()), " already exists with",
                       has.memory.exportable_pool ? "" : "out", " an exportable pool; close it first"));
  }
  if (chosen.slabs) {
    throw error(
        errc::invalid_argument,
        concat("the context of ", to_string(opened.device()),
               " already exists, and the source of its memory is chosen when it is opened; close it first"));
  }
}

} // namespace

device_properties describe_device(device_id device) {
  if (device.kind == device_kind::cuda && device.ordinal >= 0 && device.ordinal < cuda_devices()) {
    return properties_of_cuda(device.ordinal);
  }
  return make_backend(device)->properties();
}

std::uintptr_t driver_context(device_id device) {
  return device.kind == device_kind::cuda ? context_of_cuda(device.ordinal) : 0;
}

std::vector<device_entry> devices() {
  std::vector<device_entry> entries;
  for (const device_id id : device_ids()) {
    try {
      entries.push_back({id, describe_device(id)});
    } catch (const error&) {
      report_current_exception(concat("device ", to_string(id), " is left out"));
    }
  }
  return entries;
}

std::shared_ptr<backend> host_backend() { return make_host_backend(); }

std::shared_ptr<backend> cuda_backend(std::int32_t ordinal) {
  return make_backend({device_kind::cuda, ordinal});
}

runtime_report describe_runtime() { return describe_cuda(); }

device_id best_device() { return device_ids().front(); }

std::shared_ptr<context> open_context(device_id device, std::optional<std::uint64_t> budget) {
  return open_context(device, open_options{budget, std::nullopt, std::nullopt});
}

std::shared_ptr<context> open_context(device_id device, const open_options& options) {
  slot& place = contexts().at(device);
  const std::lock_guard lock(place.mutex);
  // A closed context refuses all work, so the device gets a new one. Live memory stays on the old context's
  // budget.
  if (place.opened == nullptr || place.opened->closed()) {
    place.opened = make_context(device, options);
    return place.opened;
  }
  require_same(*place.opened, options);
  if (options.budget) {
    place.opened->set_budget(*options.budget);
  }
  return place.opened;
}

std::shared_ptr<context> find_context(device_id device) {
  slot& place = contexts().at(device);
  const std::lock_guard lock(place.mutex);
  return place.opened != nullptr && !place.opened->closed() ? place.opened : nullptr;
}

std::shared_ptr<context> own_context(const std::shared_ptr<context>& of) {
  require_argument(of, "of");
  const bool replaced = of->inherited() && of->device() == host && &of->root() == of.get();
  return replaced ? open_context(host) : of;
}

} // namespace saeta
