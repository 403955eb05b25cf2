// Measures this machine's memory and link, as a reference for the rates that `saeta demo` shows.
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"

#include <nanobind/stl/string.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace saeta::py {
namespace {

/// Page-locked memory of a context, freed by the destructor.
class pinned_bytes {
public:
  pinned_bytes(std::shared_ptr<context> ctx, std::size_t bytes)
      : ctx_(std::move(ctx)), block_(ctx_->pinned().allocate(bytes, 0, ctx_->work_stream())) {
    std::memset(block_.pointer, 1, bytes);
  }
  pinned_bytes(const pinned_bytes&) = delete;
  pinned_bytes& operator=(const pinned_bytes&) = delete;
  ~pinned_bytes() { static_cast<void>(ctx_->pinned().deallocate(block_, ctx_->work_stream())); }

  [[nodiscard]] void* data() const noexcept { return block_.pointer; }

private:
  std::shared_ptr<context> ctx_;
  block block_;
};

std::function<void()> memory_copy(std::size_t bytes) {
  return [source = std::vector<unsigned char>(bytes, 1),
          target = std::vector<unsigned char>(bytes, 2)]() mutable {
    std::memcpy(target.data(), source.data(), source.size());
  };
}

std::function<void()> link_copy(const std::shared_ptr<context>& ctx, std::size_t bytes, copy_kind kind) {
  const stream_ref stream = ctx->work_stream();
  return [ctx, bytes, kind, stream, device = buffer::allocate(ctx, bytes, stream, "copy measurement"),
          host = std::make_shared<pinned_bytes>(ctx, bytes)] {
    use_token token(stream, {updates(device)});
    auto* there = token.span<unsigned char>(device).data();
    if (kind == copy_kind::host_to_device) {
      ctx->copies().copy(there, host->data(), bytes, kind, stream);
    } else {
      ctx->copies().copy(host->data(), there, bytes, kind, stream);
    }
    token.finish();
    ctx->synchronize(stream);
  };
}

/// Repeated copies between one source and one target, which the object owns.
class plain_copies {
public:
  plain_copies(const context_object& ctx, std::size_t bytes, const std::string& kind) {
    if (bytes == 0) {
      throw error(errc::invalid_argument, "nothing to measure: 0 bytes");
    }
    if (kind == "memcpy") {
      copy_ = memory_copy(bytes);
    } else if (kind == "host_to_device") {
      copy_ = link_copy(ctx.value, bytes, copy_kind::host_to_device);
    } else if (kind == "device_to_host") {
      copy_ = link_copy(ctx.value, bytes, copy_kind::device_to_host);
    } else {
      throw error(errc::invalid_argument,
                  concat("kind '", kind, "': expected memcpy, host_to_device or device_to_host"));
    }
    copy_(); // warms up
  }

  [[nodiscard]] double time() const {
    const auto start = std::chrono::steady_clock::now();
    copy_();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

private:
  std::function<void()> copy_;
};

} // namespace

void bind_measure(nb::module_& m) {
  nb::class_<plain_copies>(
      m, "_PlainCopies",
      "Copies of so many bytes, one at a time and to be timed in turns with others: \"memcpy\" (one thread, "
      "ordinary memory), \"host_to_device\" or \"device_to_host\" (page-locked memory). The memory stays "
      "with the object. The last two count as copies of the context.")
      .def(nb::init<const context_object&, std::size_t, const std::string&>(), nb::arg("where"),
           nb::arg("bytes"), nb::arg("kind"), nb::call_guard<gil_release>())
      .def("time", &plain_copies::time, nb::call_guard<gil_release>(), "Seconds that one copy takes.");
}

} // namespace saeta::py
