// Queues a kernel of a simulated device as an operation that declares the bytes it touches.

#pragma once

#include "saeta/backend/sim/machine.hpp"
#include "saeta/base/text.hpp"
#include "saeta/device/kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace saeta::sim {

/// The bytes that hold bits [offset, offset + length).
inline access reading_bits(const std::uint8_t* source, std::int64_t offset, std::int64_t length) {
  const std::int64_t first = offset / 8;
  const auto bytes = static_cast<std::size_t>((offset + length + 7) / 8 - first);
  return {source + first, length == 0 ? 0 : bytes, true};
}

/// @param anchor  device memory that the kernel touches; it names the device of a default stream
template <class Body>
void queue(stream_handle stream, const char* name, const void* anchor, std::span<const access> touched,
           Body body) {
  const bool default_stream = stream == legacy_stream || stream == per_thread_stream;
  const std::shared_ptr<machine> owner =
      default_stream ? machine::of_address(anchor) : machine::of_stream(stream);
  if (!owner) {
    throw error(errc::device, concat("sim: kernel ", name, ": stream ", static_cast<std::uintptr_t>(stream),
                                     " or the memory at ", anchor, " does not belong to a simulated device"));
  }
  const machine::guard held = owner->enter();
  gpu& home = owner->home(stream, anchor);
  owner->call(home, name);
  operation work;
  work.body = [body](unsigned, unsigned) { body(); };
  owner->submit(owner->stream(home, stream), name, touched, std::move(work));
}

template <class Body>
void queue(stream_handle stream, const char* name, const void* anchor, std::initializer_list<access> touched,
           Body body) {
  queue(stream, name, anchor, std::span(touched.begin(), touched.size()), std::move(body));
}

/// The kernels of simulated devices that move rows, convert numbers, permute and compress them.
void count_taken(stream_handle stream, const take_work& work, std::int64_t* sums, taken_count* count);
void take(stream_handle stream, const take_work& work);
void cast_numbers(stream_handle stream, const cast_work& work);
void permute_rows(stream_handle stream, const permute_work& work);
void compress(stream_handle stream, const compress_work& work);
void decompress(stream_handle stream, const decompress_work& work);

} // namespace saeta::sim
