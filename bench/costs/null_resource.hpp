// A resource that only increments a counter, so that the cost of a decorator above it is measured alone.
#pragma once

#include "saeta/resource/resource.hpp"

#include <memory>

namespace saeta::bench {

/// Returns parts of one area of device memory in turn, so that decorators can write to real memory. The area
/// is larger than any decorator's quarantine. Single-threaded; requests have at most `place` bytes.
class null_resource final : public resource {
public:
  static constexpr std::size_t place = 8192;
  static constexpr std::size_t places = 4096;

  explicit null_resource(std::shared_ptr<backend> device)
      : device_(std::move(device)),
        area_(static_cast<std::byte*>(device_->allocate(place * places, device_alignment))) {}
  ~null_resource() override {
    // The backend reports a failure.
    static_cast<void>(device_->deallocate(area_, place * places, device_alignment));
  }

  std::size_t trim() override { return 0; }
  [[nodiscard]] std::uint64_t held_bytes() const override { return place * places; }

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override {
    if (request.bytes > place) {
      throw error(errc::invalid_argument, "a null_resource has no place for so much");
    }
    block given;
    given.pointer = area_ + next_++ % places * place;
    given.bytes = request.bytes;
    given.alignment = device_alignment;
    given.device = device_->device();
    given.stream_id = stream.id();
    given.generation = next_generation();
    given.label = request.label;
    return given;
  }
  bool do_deallocate(const block&, std::span<const point>) noexcept override { return true; }

  std::shared_ptr<backend> device_;
  std::byte* area_;
  std::size_t next_ = 0;
};

} // namespace saeta::bench
