#include "saeta/ipc/io/source.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/io/file_source.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <iomanip>
#include <string_view>
#include <vector>

namespace saeta::ipc::detail {
namespace {

constexpr std::string_view magic = "ARROW1";

/// Bytes in the caller's memory.
class memory_source final : public byte_source {
public:
  memory_source(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive)
      : byte_source("bytes", bytes.size()), bytes_(bytes), keepalive_(std::move(keepalive)) {}

  void read_at(std::uint64_t offset, std::span<std::byte> target) const override {
    if (available(offset, target.size()) < target.size()) {
      throw error(errc::io, concat(name(), ": can't read ", target.size(), " bytes at offset ", offset,
                                   " of ", size(), " bytes"));
    }
    std::ranges::copy(bytes_.subspan(offset, target.size()), target.begin());
  }
  [[nodiscard]] std::span<const std::byte> view() const override { return bytes_; }
  [[nodiscard]] bool near_by() const noexcept override { return true; }

private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> keepalive_;
};

/// Bytes that a function reads. Large ranges are split into several concurrent calls.
class function_source final : public byte_source {
public:
  using function = std::function<void(std::uint64_t, std::span<std::byte>)>;
  function_source(std::string name, std::uint64_t size, function read)
      : byte_source(std::move(name), size), read_(std::move(read)) {}

  void read_at(std::uint64_t offset, std::span<std::byte> target) const override {
    if (target.size() <= piece) {
      read_piece(offset, target);
      return;
    }
    // Such a function mostly waits for a network, where several concurrent requests take no longer than one.
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t at = next.fetch_add(piece); at < target.size(); at = next.fetch_add(piece)) {
        try {
          read_piece(offset + at, target.subspan(at, std::min(piece, target.size() - at)));
        } catch (...) {
          next = target.size();
          throw;
        }
      }
    };
    const std::size_t helpers = std::min(most_at_once, (target.size() + piece - 1) / piece) - 1;
    std::vector<std::future<void>> others;
    for (std::size_t i = 0; i < helpers; ++i) {
      others.push_back(std::async(std::launch::async, work));
    }
    work(); // if it throws, the destructors of the futures wait for the other calls
    for (auto& each : others) {
      each.get();
    }
  }

private:
  static constexpr std::size_t piece = std::size_t{4} << 20;
  static constexpr std::size_t most_at_once = 8;

  void read_piece(std::uint64_t offset, std::span<std::byte> target) const {
    if (!target.empty()) {
      read_(offset, target);
    }
  }

  function read_;
};

std::string hexadecimal_bytes(std::span<const std::byte> bytes) {
  std::ostringstream out;
  for (const auto byte : bytes) {
    out << (out.tellp() > 0 ? " " : "") << std::hex << std::setw(2) << std::setfill('0')
        << std::to_integer<unsigned>(byte);
  }
  return std::move(out).str();
}

bool begins_with_message(std::span<const std::byte> beginning, const byte_source& from) {
  /// Four ASCII letters read as a length are larger than this. Waiting for so many bytes of a live stream may
  /// never end.
  constexpr std::uint32_t longest_of_live = std::uint32_t{64} << 20;
  std::uint32_t first = 0;
  if (beginning.size() < sizeof(first)) {
    return false;
  }
  std::memcpy(&first, beginning.data(), sizeof(first));
  // Streams before format version 0.15 begin with the length itself.
  return first == continuation ||
         (first > 0 && first <= (from.live() ? longest_of_live : from.size() - sizeof(first)));
}

/// Whether the bytes, which may be truncated, begin with `front`.
bool is_beginning(std::span<const std::byte> bytes, std::string_view front) {
  const std::size_t known = std::min(bytes.size(), front.size());
  return known != 0 && std::memcmp(bytes.data(), front.data(), known) == 0;
}

/// Names a format that is often mistaken for an Arrow file, by its first bytes, and what to do with it; empty
/// if unknown.
std::string_view other_format(std::span<const std::byte> beginning) {
  struct known {
    std::string_view front;
    std::string_view name;
  };
  using namespace std::string_view_literals;
  static constexpr std::array formats{
      known{"PAR1"sv, "a Parquet file: read it with read_parquet"sv},
      known{"PARE"sv, "an encrypted Parquet file: decrypt it with pyarrow.parquet"sv},
      known{"FEA1"sv, "a Feather V1 file: read it with pyarrow.feather and write it as version 2"sv},
      known{"\x1f\x8b"sv, "gzip: decompress it first, as with gzip.open"sv},
      known{"\x28\xb5\x2f\xfd"sv, "a Zstandard frame: decompress it first"sv},
      known{"\x04\x22\x4d\x18"sv, "an LZ4 frame: decompress it first"sv},
      known{"BZh"sv, "bzip2: decompress it first, as with bz2.open"sv},
      known{"\xfd"
            "7zX"sv,
            "xz: decompress it first, as with lzma.open"sv},
      known{"PK\x03\x04"sv, "a ZIP archive: open the file in it first"sv},
      known{"ORC"sv, "an ORC file: read it with pyarrow.orc"sv},
      known{"Obj\x01"sv, "an Avro file"sv},
      known{"\x89HDF"sv, "an HDF5 file"sv},
      known{"SQLi"sv, "an SQLite database"sv},
      known{"\x93NUM"sv, "a NumPy file: read it with numpy.load"sv},
  };
  for (const known& each : formats) {
    if (beginning.size() >= each.front.size() && is_beginning(beginning, each.front)) {
      return each.name;
    }
  }
  const auto is_text = [](std::byte byte) {
    const auto code = std::to_integer<unsigned char>(byte);
    return (code >= ' ' && code <= '~') || code == '\t' || code == '\n' || code == '\r';
  };
  constexpr std::string_view utf8_mark = "\xef\xbb\xbf";
  const bool marked = beginning.size() >= utf8_mark.size() && is_beginning(beginning, utf8_mark);
  if (!std::ranges::all_of(beginning.subspan(marked ? utf8_mark.size() : 0), is_text)) {
    return {};
  }
  const auto first =
      std::ranges::find_if(beginning, [](std::byte byte) { return std::to_integer<int>(byte) > ' '; });
  const bool json = first != beginning.end() && (*first == std::byte{'{'} || *first == std::byte{'['});
  return json ? "JSON"sv : "text, such as CSV: read it with pyarrow.csv"sv;
}

bool is_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

} // namespace

bool contains(std::span<const std::byte> bytes, const void* data, std::size_t size) noexcept {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::less_equal<> before;
  return size == 0 || (before(bytes.data(), first) && before(first, bytes.data() + bytes.size()) &&
                       size <= static_cast<std::size_t>(bytes.data() + bytes.size() - first));
}

source open_source(const std::filesystem::path& file, bool keep_open) {
  return file_source::open(file, keep_open);
}

source source_of(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive) {
  return std::make_shared<memory_source>(bytes, std::move(keepalive));
}

source source_of(std::string name, std::uint64_t size,
                 std::function<void(std::uint64_t offset, std::span<std::byte> target)> read) {
  return std::make_shared<function_source>(std::move(name), size, std::move(read));
}

container recognise(const byte_source& from) {
  std::array<std::byte, 8> first{};
  // From a live stream only one word is requested: an old stream may have no more.
  const auto beginning =
      std::span(first).first(from.available(0, from.live() ? sizeof(std::uint32_t) : first.size()));
  if (beginning.empty()) {
    throw error(errc::format, concat(from.name(), ": not an Arrow file or stream: it is empty"));
  }
  from.read_at(0, beginning);
  if (from.live() && beginning.size() == sizeof(std::uint32_t) && is_beginning(beginning, magic)) {
    throw error(errc::format, concat(from.name(), ": an Arrow file has its footer at the end, so it can't be "
                                                  "read while it arrives: read all of it first"));
  }
  if (is_magic(beginning)) {
    std::array<std::byte, magic.size()> last{};
    if (from.size() >= 2 * magic.size()) {
      from.read_at(from.size() - magic.size(), last);
    }
    if (!is_magic(last)) {
      throw error(errc::format, concat(from.name(), ": truncated: ", from.size(),
                                       " bytes begin as an Arrow file but do not end with ", magic));
    }
    return container::file;
  }
  const std::string_view other = other_format(beginning);
  if (other.empty() && begins_with_message(beginning, from)) {
    return container::stream;
  }
  throw error(errc::format, concat(from.name(), ": not an Arrow file or stream: ",
                                   other.empty() ? "" : concat("it looks like ", other, "; "), "expected ",
                                   magic, " or a message, found the bytes ", hexadecimal_bytes(beginning)));
}

} // namespace saeta::ipc::detail
