#include "saeta/device/join.hpp"

#include "saeta/device/bit_run.hpp"
#include "saeta/device/requested_value.hpp"
#include "saeta/device/unaligned.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>

namespace saeta {
namespace {

/// Calls `run` with a signed integer of `width` bytes.
template <class Run>
auto with_signed(std::int32_t width, Run run) {
  switch (width) {
  case 1:
    return run(std::int8_t{});
  case 2:
    return run(std::int16_t{});
  case 4:
    return run(std::int32_t{});
  default:
    return run(std::int64_t{});
  }
}

/// Reads up to 8 bits of a run from bit `first` on, and no byte that has none of them.
unsigned read_bits(const std::uint8_t* source, std::int64_t first, std::int64_t count) noexcept {
  const auto shift = static_cast<unsigned>(first % 8);
  unsigned found = static_cast<unsigned>(source[first / 8]) >> shift;
  if (shift + static_cast<unsigned>(count) > 8) {
    found |= static_cast<unsigned>(source[first / 8 + 1]) << (8 - shift);
  }
  return found & ((1u << count) - 1);
}

/// Adds bits to a byte. The first and the last byte of a step may have bits of other steps, which another
/// thread may write at the same time.
void add_bits(std::uint8_t& byte, unsigned bits, bool shared) noexcept {
  if (shared) {
    std::atomic_ref(byte).fetch_or(static_cast<std::uint8_t>(bits), std::memory_order_relaxed);
  } else {
    byte = static_cast<std::uint8_t>(bits);
  }
}

/// Joins bits [from, end) of a step, one byte of the target at a time. Returns how many are 0.
std::int64_t join_bytes_of_bits(const join_step& step, std::int64_t from, std::int64_t end) noexcept {
  auto* const target = static_cast<std::uint8_t*>(step.target);
  const auto* const source = static_cast<const std::uint8_t*>(step.source);
  std::int64_t nulls = 0;
  for (std::int64_t done = from; done < end;) {
    const std::int64_t to = step.bits.target_first + done;
    const std::int64_t taken = std::min(8 - to % 8, end - done);
    unsigned found = (1u << taken) - 1;
    if (step.kind == join_kind::bits) {
      found = read_bits(source, step.bits.source_first + done, taken);
      nulls += taken - count_ones(found);
    }
    add_bits(target[to / 8], found << (to % 8), taken != 8);
    done += taken;
  }
  return nulls;
}

/// Joins `words` words of bits of a step from bit `from` on, which starts a byte of the target. Returns how
/// many bits are 0.
std::int64_t join_words_of_bits(const join_step& step, std::int64_t from, std::int64_t words) noexcept {
  auto* const target = static_cast<std::uint8_t*>(step.target) + (step.bits.target_first + from) / 8;
  if (step.kind == join_kind::ones) {
    std::memset(target, 0xFF, static_cast<std::size_t>(words) * 8);
    return 0;
  }
  const bit_run bits(static_cast<const std::uint8_t*>(step.source), step.bits.source_first + from,
                     words * word_bits);
  std::int64_t valid = 0;
  for (std::int64_t i = 0; i < words; ++i) {
    const std::uint64_t word = bits.word(i);
    valid += count_ones(word);
    store_word(target + i * 8, word);
  }
  return words * word_bits - valid;
}

void join_bits(const join_step& step) noexcept {
  const std::int64_t head = std::min((8 - step.bits.target_first % 8) % 8, step.count);
  const std::int64_t words = (step.count - head) / word_bits;
  const std::int64_t tail = head + words * word_bits;
  const std::int64_t nulls = join_bytes_of_bits(step, 0, head) + join_words_of_bits(step, head, words) +
                             join_bytes_of_bits(step, tail, step.count);
  if (step.bits.nulls != nullptr) {
    std::atomic_ref(*step.bits.nulls).fetch_add(nulls, std::memory_order_relaxed);
  }
}

/// Unsigned, so that offsets that were never validated wrap. Signed overflow would be undefined. Blocks of a
/// constant size become vector instructions.
template <class Offset>
void add(const join_step& step) noexcept {
  constexpr std::size_t length = 64 / sizeof(Offset);
  using block = std::array<Offset, length>;
  const auto addend = static_cast<Offset>(step.add.addend);
  const auto sum = [addend](Offset offset) { return static_cast<Offset>(offset + addend); };
  const std::int64_t blocks = step.count / static_cast<std::int64_t>(length);
  for (std::int64_t i = 0; i < blocks; ++i) {
    auto offsets = load_unaligned<block>(step.source, i);
    std::ranges::transform(offsets, offsets.begin(), sum);
    store_unaligned(step.target, i, offsets);
  }
  for (std::int64_t i = blocks * static_cast<std::int64_t>(length); i < step.count; ++i) {
    store_unaligned(step.target, i, sum(load_unaligned<Offset>(step.source, i)));
  }
}

template <class Index>
void remap(const join_step& step) noexcept {
  for (std::int64_t i = 0; i < step.count; ++i) {
    const auto index = static_cast<std::uint64_t>(load_unaligned<Index>(step.source, i));
    const bool known = index < static_cast<std::uint64_t>(step.remap.entries);
    store_unaligned(step.target, i, static_cast<Index>(known ? step.remap.table[index] : 0));
  }
}

/// A view of more than 12 bytes has a buffer number in its third word.
void shift_views(const join_step& step) noexcept {
  constexpr std::int64_t words = 4;
  constexpr std::int32_t inline_bytes = 12;
  std::memmove(step.target, step.source, static_cast<std::size_t>(step.count) * words * 4);
  for (std::int64_t i = 0; i < step.count; ++i) {
    if (load_unaligned<std::int32_t>(step.target, i * words) > inline_bytes) {
      const auto index = load_unaligned<std::uint32_t>(step.target, i * words + 2);
      store_unaligned(step.target, i * words + 2,
                      index + static_cast<std::uint32_t>(step.views.added_buffers));
    }
  }
}

void shift_unions(const join_step& step) noexcept {
  for (std::int64_t i = 0; i < step.count; ++i) {
    const std::int8_t id = step.unions.ids[i];
    const auto base = static_cast<std::uint32_t>(id < 0 ? 0 : step.unions.bases[id]);
    store_unaligned(step.target, i, load_unaligned<std::uint32_t>(step.source, i) + base);
  }
}

template <class End>
void shift_run_ends(const join_step& step) noexcept {
  for (std::int64_t i = 0; i < step.count; ++i) {
    const std::int64_t end = std::int64_t{load_unaligned<End>(step.source, i)} - step.run_ends.first_row;
    store_unaligned(step.target, i, static_cast<End>(std::min(end, step.run_ends.rows) + step.run_ends.base));
  }
}

void run(const join_step& step) noexcept {
  switch (step.kind) {
  case join_kind::copy:
    std::memcpy(step.target, step.source, static_cast<std::size_t>(step.count));
    std::memset(static_cast<std::byte*>(step.target) + step.count, 0,
                static_cast<std::size_t>(step.copy.zeros));
    return;
  case join_kind::zero:
    std::memset(step.target, 0, static_cast<std::size_t>(step.count));
    return;
  case join_kind::bits:
  case join_kind::ones:
    return join_bits(step);
  case join_kind::add:
    return with_signed(step.width, [&]<class Offset>(Offset) { add<std::make_unsigned_t<Offset>>(step); });
  case join_kind::remap:
    return with_signed(step.width, [&]<class Index>(Index) { remap<std::make_unsigned_t<Index>>(step); });
  case join_kind::views:
    return shift_views(step);
  case join_kind::unions:
    return shift_unions(step);
  case join_kind::run_ends:
    return with_signed(step.width, [&]<class End>(End) { shift_run_ends<End>(step); });
  }
}

} // namespace

void join_now(std::span<const join_step> steps) noexcept {
  for (const join_step& step : steps) {
    run(step);
  }
}

void read_values_now(std::span<const value_request> requests, std::int64_t* values) noexcept {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    values[i] = requested_value(requests[i]);
  }
}

} // namespace saeta
