#include "saeta/ipc/codec/decoded_bound.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/format/column_tree.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace saeta::ipc::detail {
namespace {

using range_reader = std::function<std::span<const std::byte>(std::uint64_t at, std::size_t bytes)>;

/// Reads consecutive little-endian numbers. `ended` is true once there were too few bytes.
class walker {
public:
  walker(std::uint64_t bytes, const range_reader& read) : bytes_(bytes), read_(read) {}

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::uint64_t at = at_;
    if (skip(bytes)) {
      std::memcpy(&value, read_(at, bytes).data(), bytes);
    }
    return value;
  }
  bool skip(std::uint64_t bytes) {
    ended_ = ended_ || bytes > bytes_ - at_;
    at_ = ended_ ? bytes_ : at_ + bytes;
    return !ended_;
  }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] bool empty() const noexcept { return at_ == bytes_; }

private:
  std::uint64_t bytes_;
  const range_reader& read_;
  std::uint64_t at_ = 0;
  bool ended_ = false;
};

constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();

/// Decoded bytes per compressed byte that a buffer may claim unchecked. A smaller false claim costs no more
/// memory than a few files of that size.
constexpr std::uint64_t modest_expansion = 4;

bool is_skippable(std::uint64_t magic) { return (magic & 0xFFFFFFF0) == 0x184D2A50; }

bool bit(std::uint64_t of, int number) { return (of >> number & 1) != 0; }

/// Returns the bound of one frame. `from` stands behind the magic number.
std::uint64_t lz4_frame(walker& from) {
  constexpr std::uint64_t most_expansion = 255;
  const std::uint64_t flags = from.number(1);
  const std::uint64_t largest = std::uint64_t{1} << (8 + 2 * (from.number(1) >> 4 & 7));
  const std::uint64_t content = bit(flags, 3) ? from.number(8) : unknown;
  from.skip((bit(flags, 0) ? 4U : 0U) + 1U); // dictionary id and header checksum
  std::uint64_t sum = 0;
  while (!from.ended()) {
    const std::uint64_t head = from.number(4);
    const std::uint64_t size = head & 0x7FFFFFFF;
    if (size == 0) {
      break;
    }
    from.skip(size + (bit(flags, 4) ? 4U : 0U));
    sum += bit(head, 31) ? size : std::min(largest, most_expansion * size);
  }
  from.skip(bit(flags, 2) ? 4U : 0U);
  return std::min(sum, content);
}

std::uint64_t zstd_frame(walker& from) {
  constexpr std::uint64_t largest_block = std::uint64_t{1} << 17;
  const std::uint64_t flags = from.number(1);
  const bool single = bit(flags, 5);
  from.skip((single ? 0U : 1U) + (1U << (flags & 3) >> 1)); // window descriptor and dictionary id
  const std::uint64_t width = flags >> 6;
  const std::uint64_t content = width == 0 ? (single ? from.number(1) : unknown)
                                           : from.number(std::size_t{1} << width) + (width == 1 ? 256U : 0U);
  std::uint64_t sum = 0;
  bool last = false;
  while (!last && !from.ended()) {
    const std::uint64_t head = from.number(3);
    const std::uint64_t size = head >> 3;
    const std::uint64_t kind = head >> 1 & 3;
    last = bit(head, 0);
    from.skip(kind == 1 ? 1 : size);
    sum += kind == 2 ? largest_block : size;
  }
  from.skip(bit(flags, 2) ? 4U : 0U);
  return std::min(sum, content);
}

} // namespace

std::uint64_t max_decoded_bytes(std::string_view codec, std::span<const std::byte> compressed) {
  return max_decoded_bytes(codec, compressed.size(), [&](std::uint64_t at, std::size_t bytes) {
    return compressed.subspan(at, bytes);
  });
}

std::uint64_t max_decoded_bytes(std::string_view codec, std::uint64_t bytes, const range_reader& read) {
  const bool lz4 = codec == "lz4";
  const std::uint64_t magic = lz4 ? 0x184D2204 : 0xFD2FB528;
  walker from(bytes, read);
  std::uint64_t sum = 0;
  while (!from.empty()) {
    const std::uint64_t found = from.number(4);
    if (found == magic) {
      sum += lz4 ? lz4_frame(from) : zstd_frame(from);
    } else if (is_skippable(found)) {
      from.skip(from.number(4));
    } else {
      break;
    }
  }
  return sum;
}

packed_claim read_claim(std::size_t number, body_codec codec, std::uint64_t length,
                        const range_reader& read) {
  std::int64_t claimed = 0;
  if (length < sizeof claimed) {
    throw error(errc::format, concat("buffer ", number, " has ", length,
                                     " bytes, a compressed one begins with the 8 bytes of its size"));
  }
  std::memcpy(&claimed, read(0, sizeof claimed).data(), sizeof claimed);
  const std::uint64_t packed = length - sizeof claimed;
  if (claimed < -1) {
    throw error(errc::format, concat("buffer ", number, " claims ", claimed, " bytes when decoded"));
  }
  if (claimed == -1) {
    return {body_codec::none, packed, packed};
  }
  const packed_claim made{codec, static_cast<std::uint64_t>(claimed), packed};
  if (made.bytes / modest_expansion > packed) {
    const std::uint64_t most =
        max_decoded_bytes(name_of(codec), packed, [&](std::uint64_t at, std::size_t bytes) {
          return read(sizeof claimed + at, bytes);
        });
    if (made.bytes > most) {
      throw error(errc::format, concat("buffer ", number, " claims ", claimed, " bytes when decoded, its ",
                                       packed, " bytes of ", name_of(codec), " decode to at most ", most));
    }
  }
  return made;
}

void require_honest_sizes(const batch_layout& batch, const column_tree& tree,
                          std::span<const std::byte> body) {
  node_buffers buffers(batch);
  for (const tree_node& node : tree.nodes) {
    const auto [first, count] = buffers.next(node);
    const bool unread_validity = node.type->has_validity() && batch.nodes[node.row].null_count == 0;
    for (std::size_t i = first + (unread_validity ? 1 : 0); i < first + count; ++i) {
      const buffer_place place = batch.buffers[i];
      if (place.length != 0) {
        const auto packed =
            body.subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.length));
        static_cast<void>(read_claim(i, batch.codec, packed.size(), [&](std::uint64_t at, std::size_t bytes) {
          return packed.subspan(at, bytes);
        }));
      }
    }
  }
}

} // namespace saeta::ipc::detail
