#include "saeta/staging/streaming_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace saeta {

#if defined(__SSE2__)

void streaming_copy(std::byte* target, const std::byte* source, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64; // whole lines only: a line written in part would be read first
  constexpr std::size_t step = sizeof(__m128i);
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(target) % line);
  std::memcpy(target, source, head);
  std::size_t at = head;
  for (; bytes - at >= line; at += line) {
    for (std::size_t part = at; part < at + line; part += step) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + part));
      _mm_stream_si128(reinterpret_cast<__m128i*>(target + part), value);
    }
  }
  std::memcpy(target + at, source + at, bytes - at);
  _mm_sfence(); // streaming stores are not ordered with other stores
}

#else

void streaming_copy(std::byte* target, const std::byte* source, std::size_t bytes) noexcept {
  std::memcpy(target, source, bytes);
}

#endif

} // namespace saeta
