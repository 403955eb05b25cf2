#include "saeta/backend/host/host_backend.hpp"

#include "saeta/base/pages.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <thread>

#include <sys/mman.h>
#include <sys/utsname.h>

namespace saeta {
namespace {

constexpr std::size_t least_alignment = 64;
/// The same alignment as page-locked memory of CUDA, so that code written for one backend works on the other.
constexpr std::size_t pinned_alignment = 256;

/// The next handle for a stream or an event of any host backend of the process. Handles never repeat and
/// start above those of the two default streams.
std::uintptr_t next_handle() noexcept {
  static std::atomic<std::uintptr_t> last{static_cast<std::uintptr_t>(per_thread_stream)};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// The value of the first "key : value" line in one of the kernel's text files; empty when there is none.
std::string value_of(const char* file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && line.compare(0, key.size(), key) == 0) {
      const auto start = line.find_first_not_of(" \t", colon + 1);
      return start == std::string::npos ? std::string() : line.substr(start);
    }
  }
  return {};
}

std::string architecture() {
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
}

/// The bytes that new allocations may take without swapping. The number of free pages would leave out the
/// page cache.
std::optional<std::uint64_t> available_bytes() {
  const std::string kibibytes = value_of("/proc/meminfo", "MemAvailable");
  return kibibytes.empty()
             ? std::nullopt
             : std::optional<std::uint64_t>(std::strtoull(kibibytes.c_str(), nullptr, 10) * 1024);
}

/// Faulting small pages in takes longer than filling them. Without huge pages on the system, this does
/// nothing.
void ask_for_huge_pages(void* memory, std::size_t bytes) noexcept {
  constexpr std::uintptr_t huge_page = huge_page_bytes;
  constexpr std::size_t worth_it =
      2 * huge_page; // smaller allocations come from memory that the C library has used before
  if (bytes < worth_it) {
    return;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + huge_page - 1) / huge_page * huge_page;
  const std::uintptr_t last =
      (begin + bytes) / huge_page * huge_page; // whole pages only, so that neighbouring memory does not grow
  ::madvise(static_cast<std::byte*>(memory) + (first - begin), last - first, MADV_HUGEPAGE);
}

void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
  // An object can't be larger than this, and rounding such a size up to the alignment could wrap to a few
  // bytes.
  const bool impossible = bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  void* const pointer =
      impossible ? nullptr : ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
  if (pointer == nullptr) {
    throw error(errc::out_of_memory, concat("host: the system has too little memory for ", bytes, " bytes (",
                                            human_bytes(bytes), ")"));
  }
  ask_for_huge_pages(pointer, bytes);
  return pointer;
}

[[noreturn]] void refuse_pool() {
  throw error(
      errc::unsupported,
      "the host has no pool of memory to export or import: processes share host memory by mapping a file");
}

class host_backend final : public backend {
public:
  [[nodiscard]] device_id device() const noexcept override { return {device_kind::cpu, 0}; }

  [[nodiscard]] device_properties properties() const override {
    device_properties properties;
    properties.architecture = architecture();
    const std::string model = value_of("/proc/cpuinfo", "model name");
    properties.name =
        model.empty() ? properties.architecture : model; // some systems, Arm among them, name no model
    properties.total_bytes = machine_bytes();
    properties.free_bytes = available_bytes();
    properties.multiprocessors = static_cast<std::int32_t>(std::thread::hardware_concurrency());
    return properties;
  }

  [[nodiscard]] const kernel_table& kernels() const noexcept override { return reference_kernels(); }

  stream_handle create_stream() override { return stream_handle{next_handle()}; }
  void destroy_stream(stream_handle) noexcept override {}
  std::uint64_t stream_id(stream_handle stream) override {
    if (stream == per_thread_stream) {
      thread_local const std::uint64_t id = next_handle();
      return id;
    }
    return static_cast<std::uint64_t>(stream);
  }
  void synchronize_stream(stream_handle) override {}
  bool stream_idle(stream_handle) override { return true; }
  bool capturing(stream_handle) override { return false; }

  event_handle create_event() override { return event_handle{next_handle()}; }
  void destroy_event(event_handle) noexcept override {}
  void record_event(event_handle, stream_handle) override {}
  fence_outcome record_context(event_handle) override { return fence_outcome::recorded; }
  void wait_event(stream_handle, event_handle) override {}
  bool event_complete(event_handle) override { return true; }
  void synchronize_event(event_handle) override {}

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    return allocate_aligned(bytes, std::max(alignment, least_alignment));
  }
  bool deallocate(void* pointer, std::size_t, std::size_t alignment) noexcept override {
    ::operator delete (pointer, std::align_val_t{std::max(alignment, least_alignment)});
    return true;
  }
  void* allocate_async(std::size_t bytes, stream_handle) override { return allocate(bytes, least_alignment); }
  bool deallocate_async(void* pointer, std::size_t bytes, stream_handle) noexcept override {
    return deallocate(pointer, bytes, least_alignment);
  }
  /// There is no pool: memory comes from the C library.
  std::size_t trim_pool(std::size_t) override { return 0; }
  [[nodiscard]] std::uint64_t pool_bytes() const override { return 0; }
  void set_pool_threshold(std::uint64_t) override {}
  std::shared_ptr<backend> another() override { refuse_pool(); }
  void make_pool_exportable() override { refuse_pool(); }
  [[nodiscard]] bool pool_exportable() const override { return false; }
  int export_pool() override { refuse_pool(); }
  allocation_name export_allocation(const void*) override { refuse_pool(); }
  pool_handle import_pool(int) override { refuse_pool(); }
  void release_pool(pool_handle) noexcept override {}
  void* open_allocation(pool_handle, const allocation_name&) override { refuse_pool(); }
  bool close_allocation(void*, stream_handle) noexcept override { return false; }
  void* allocate_pinned(std::size_t bytes) override { return allocate_aligned(bytes, pinned_alignment); }
  bool deallocate_pinned(void* pointer, std::size_t bytes) noexcept override {
    return deallocate(pointer, bytes, pinned_alignment);
  }

  [[nodiscard]] memory_kind kind_of(const void*) const override { return memory_kind::host; }

  /// All host backends share the same memory.
  [[nodiscard]] bool can_access_peer(const backend& other) const override {
    return other.device().kind == device_kind::cpu;
  }
  void enable_peer_access(backend& other) override {
    if (!can_access_peer(other)) {
      throw error(errc::unsupported,
                  concat("work on the host can't access the memory of ", to_string(other.device())));
    }
  }

  void copy(void* target, const void* source, std::size_t bytes, copy_kind, stream_handle) override {
    if (bytes != 0) { // memcpy refuses null pointers even then
      std::memcpy(target, source, bytes);
    }
  }
  void fill(void* target, std::uint8_t value, std::size_t bytes, stream_handle) override {
    if (bytes != 0) {
      std::memset(target, value, bytes);
    }
  }
  void write_word(std::uint32_t* target, std::uint32_t value, stream_handle) override {
    std::atomic_ref(*target).store(value, std::memory_order_release);
  }
};

} // namespace

std::shared_ptr<backend> make_host_backend() { return std::make_shared<host_backend>(); }

} // namespace saeta
