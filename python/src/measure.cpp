// What this machine's memory and link can do: the yardstick beside the rates that `saeta demo` shows.
#include "module.hpp"
#include "objects.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <functional>

namespace saeta::py {
namespace {

/// Page-locked memory of a context, for as long as it lives.
class pinned_bytes {
public:
  pinned_bytes(context& home, std::size_t bytes)
      : home_(home), block_(home.pinned().allocate(bytes, 0, home.work_stream())) {
    std::memset(block_.pointer, 1, bytes);
  }
  pinned_bytes(const pinned_bytes&) = delete;
  pinned_bytes& operator=(const pinned_bytes&) = delete;
  ~pinned_bytes() { static_cast<void>(home_.pinned().deallocate(block_, home_.work_stream())); }

  [[nodiscard]] void* data() const noexcept { return block_.pointer; }

private:
  context& home_;
  block block_;
};

/// Seconds of each of `rounds` runs, after one that warms up.
std::vector<double> time_rounds(int rounds, const std::function<void()>& run) {
  std::vector<double> seconds;
  for (int round = -1; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (round >= 0) {
      seconds.push_back(taken.count());
    }
  }
  return seconds;
}

std::vector<double> time_memcpy(std::size_t bytes, int rounds) {
  const std::vector<unsigned char> source(bytes, 1);
  std::vector<unsigned char> target(bytes, 2);
  return time_rounds(rounds, [&] { std::memcpy(target.data(), source.data(), bytes); });
}

std::vector<double> time_link(const std::shared_ptr<context>& home, std::size_t bytes, copy_kind kind,
                              int rounds) {
  const stream_ref stream = home->work_stream();
  const buffer device = buffer::allocate(home, bytes, stream, "copy measurement");
  const pinned_bytes host(*home, bytes);
  return time_rounds(rounds, [&] {
    use_token token(stream, {updates(device)});
    auto* there = token.mutable_data<unsigned char>(device);
    if (kind == copy_kind::host_to_device) {
      home->copy(there, host.data(), bytes, kind, stream);
    } else {
      home->copy(host.data(), there, bytes, kind, stream);
    }
    token.finish();
    home->synchronize(stream);
  });
}

std::vector<double> measure(const context_object& home, std::size_t bytes, const std::string& kind,
                            int rounds) {
  if (bytes == 0 || rounds < 1) {
    throw error(errc::invalid_argument, concat("nothing to measure: ", bytes, " bytes, ", rounds, " rounds"));
  }
  if (kind == "memcpy") {
    return time_memcpy(bytes, rounds);
  }
  if (kind == "host_to_device") {
    return time_link(home.value, bytes, copy_kind::host_to_device, rounds);
  }
  if (kind == "device_to_host") {
    return time_link(home.value, bytes, copy_kind::device_to_host, rounds);
  }
  throw error(errc::invalid_argument,
              concat("kind '", kind, "': expected memcpy, host_to_device or device_to_host"));
}

} // namespace

void bind_measure(nb::module_& m) {
  m.def("_measure_copy", &measure, nb::arg("where"), nb::arg("bytes"), nb::arg("kind"), nb::arg("rounds") = 5,
        nb::call_guard<gil_release>(),
        "Seconds that each of `rounds` copies of `bytes` took: \"memcpy\" (one thread, ordinary memory), "
        "\"host_to_device\" or \"device_to_host\" (page-locked memory). The last two count as copies of the "
        "context.");
}

} // namespace saeta::py
