#include "saeta/ipc/io/source.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/observe/read_clock.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iomanip>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

/// Bytes that a function reads. Large ranges are split into several concurrent calls, unless the function does
/// that.
class function_source final : public byte_source {
public:
  function_source(std::string name, std::uint64_t size, source_reader read, source_fetcher fetch)
      : byte_source(std::move(name), size), read_(std::move(read)), fetch_(std::move(fetch)) {}

  [[nodiscard]] bool fetches_ahead() const noexcept override { return fetch_ != nullptr; }
  [[nodiscard]] std::shared_ptr<void> fetch_ahead(std::span<const byte_range> ranges) const override {
    return fetch_ == nullptr || ranges.empty() ? nullptr : fetch_(ranges);
  }
  void read_at(std::uint64_t offset, std::span<std::byte> target) const override {
    const timed_part timed(read_part::file, target.size()); // threads of other requests do not count
    if (target.size() <= piece || fetch_ != nullptr) {
      read_piece(offset, target);
      return;
    }
    // Such a function mostly waits for a network, where several concurrent requests take no longer than one.
    thread_pool requests(most_at_once);
    requests.run((target.size() + piece - 1) / piece, [&](std::size_t, std::size_t number) {
      const std::size_t at = number * piece;
      read_piece(offset + at, target.subspan(at, std::min(piece, target.size() - at)));
    });
  }

private:
  static constexpr std::size_t piece = std::size_t{4} << 20;
  static constexpr std::size_t most_at_once = 8;

  void read_piece(std::uint64_t offset, std::span<std::byte> target) const {
    if (!target.empty()) {
      read_(offset, target);
    }
  }

  source_reader read_;
  source_fetcher fetch_;
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
  for (const known& format : formats) {
    if (beginning.size() >= format.front.size() && is_beginning(beginning, format.front)) {
      return format.name;
    }
  }
  const auto is_text = [](std::byte byte) {
    const auto code = std::to_integer<unsigned char>(byte);
    return (code >= ' ' && code <= '~') || code == '\t' || code == '\n' || code == '\r';
  };
  constexpr std::string_view utf8_mark = "\xef\xbb\xbf";
  const bool marked = beginning.size() >= utf8_mark.size() && is_beginning(beginning, utf8_mark);
  const auto text = beginning.subspan(marked ? utf8_mark.size() : 0);
  if (!std::ranges::all_of(text, is_text)) {
    return {};
  }
  const auto first =
      std::ranges::find_if(text, [](std::byte byte) { return std::to_integer<int>(byte) > ' '; });
  const bool json = first != text.end() && (*first == std::byte{'{'} || *first == std::byte{'['});
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

source source_of(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive) {
  return std::make_shared<memory_source>(bytes, std::move(keepalive));
}

source source_of(std::string name, std::uint64_t size, source_reader read, source_fetcher fetch) {
  require_argument(read, "read");
  return std::make_shared<function_source>(std::move(name), size, std::move(read), std::move(fetch));
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

// A stream that is still being sent, as a source: a pipe, a socket, an object that can't seek.
//
// What      Reads forward and only the requested bytes: bytes behind the end of the Arrow stream stay unread.
//           The memory of a message part grows as bytes arrive, so a false length takes no memory. Bytes are
//           kept until `forget_before`, because a batch that a budget refused is decoded again.
// Owner     Owns the memory of the bytes that were read and not forgotten: one message, and the dictionaries
//           before the first batch. It is not charged to a budget, like the body of a batch while its columns
//           are copied.
// Thread    One.
// Failure   Exceptions of the function. Bytes that arrived before are kept, so a read continues after an
//           interrupt.

namespace {

constexpr std::size_t most_at_once = std::size_t{1} << 20; ///< bytes per call

class live_source final : public byte_source {
public:
  using function = std::function<std::size_t(std::span<std::byte>)>;
  live_source(std::string name, function read_some)
      : byte_source(std::move(name), 0), read_some_(std::move(read_some)) {}

  [[nodiscard]] std::uint64_t size() const noexcept override { return came_; }
  [[nodiscard]] bool live() const noexcept override { return true; }
  [[nodiscard]] std::uint64_t available(std::uint64_t offset, std::uint64_t most, bool kept) const override {
    const bool begun = !parts_.empty() && parts_.back().offset == offset;
    if (!begun && offset + most <= came_) {
      return most;
    }
    if (!kept) {
      drop(offset + most - came_);
      return std::min(most, came_ - offset);
    }
    if (!begun) {
      parts_.push_back({.offset = came_});
    }
    part& last = parts_.back();
    bring(last, most);
    return std::min<std::uint64_t>(last.filled, most);
  }
  void read_at(std::uint64_t offset, std::span<std::byte> target) const override {
    if (target.empty()) {
      return;
    }
    const auto match = std::ranges::find_if(parts_, [&](const part& part) {
      return part.offset <= offset && offset - part.offset < part.filled &&
             target.size() <= part.filled - (offset - part.offset);
    });
    if (match == parts_.end()) {
      throw error(errc::io, concat(name(), ": ", target.size(), " bytes at offset ", offset,
                                   " were not requested, or were already dropped"));
    }
    std::copy_n(match->bytes.get() + (offset - match->offset), target.size(), target.begin());
  }
  void forget_before(std::uint64_t offset) const override {
    while (!parts_.empty() && parts_.front().offset < offset) {
      parts_.pop_front();
    }
  }

private:
  struct freed {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  /// A part of a message: the bytes of one request.
  struct part {
    std::uint64_t offset;
    std::size_t filled = 0;
    std::size_t room = 0;
    std::unique_ptr<std::byte, freed> bytes = {};
  };

  [[nodiscard]] std::size_t read_some(std::span<std::byte> target) const {
    if (ended_) {
      return 0;
    }
    check_interrupt();
    const timed_part timed(read_part::file);
    const std::size_t got = read_some_(target.first(std::min(target.size(), most_at_once)));
    ended_ = got == 0;
    came_ += got;
    return got;
  }
  void bring(part& to, std::uint64_t wanted) const {
    while (to.filled < wanted) {
      if (to.filled == to.room) {
        const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(
            wanted, std::max<std::uint64_t>(most_at_once, std::uint64_t{2} * to.room)));
        void* const grown = std::realloc(to.bytes.get(), room);
        if (grown == nullptr) {
          throw error(errc::out_of_memory, concat(name(), ": no host memory for ", room, " of ", wanted,
                                                  " bytes at offset ", to.offset));
        }
        static_cast<void>(to.bytes.release());
        to.bytes.reset(static_cast<std::byte*>(grown));
        to.room = room;
      }
      const std::size_t got = read_some({to.bytes.get() + to.filled, to.room - to.filled});
      if (got == 0) {
        return;
      }
      to.filled += got;
    }
  }
  void drop(std::uint64_t bytes) const {
    std::array<std::byte, std::size_t{64} << 10> unwanted{};
    while (bytes != 0) {
      const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, unwanted.size()));
      const std::size_t got = read_some(std::span(unwanted).first(step));
      if (got == 0) {
        return;
      }
      bytes -= got;
    }
  }

  function read_some_;
  mutable std::deque<part> parts_;
  mutable std::uint64_t came_ = 0;
  mutable bool ended_ = false;
};

} // namespace

source live_source_of(std::string name, std::function<std::size_t(std::span<std::byte>)> read_some) {
  require_argument(read_some, "read_some");
  return std::make_shared<live_source>(std::move(name), std::move(read_some));
}

namespace {

// A regular file as a source: read with `pread`, mapped only when a view is requested.
//
// What      Mapped bytes stay readable when another file takes the name, but not when the file is shortened
//           meanwhile. Thousands of files can be sources at the same time: those that are not kept open share
//           a limited number of descriptors.
// Owner     The mapping lives as long as the source, which is shared, and so does the descriptor of a file
//           that is kept open.
// Thread    Any.
// Failure   error io: missing, not a regular file (a directory, for example), unreadable, not mappable; a
//           file that is opened again was replaced or changed meanwhile.

/// Device, inode, size, seconds and nanoseconds of the last change of the bytes.
using file_identity = std::array<std::int64_t, 5>;

struct open_file {
  explicit open_file(const std::filesystem::path& file)
      // Opening a pipe that has no writer would block before the file type is known.
      : descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor < 0) {
      throw os_error("open", file, errno);
    }
    try {
      struct stat status {};
      if (::fstat(descriptor, &status) != 0) {
        throw os_error("get the status of", file, errno);
      }
      if (S_ISDIR(status.st_mode)) {
        throw os_error("read", file, EISDIR);
      }
      if (!S_ISREG(status.st_mode)) {
        throw error(errc::io, concat("can't read '", file.string(), "': it is not a regular file"));
      }
      found = {static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
               status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    } catch (...) {
      ::close(descriptor);
      throw;
    }
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() { ::close(descriptor); }

  int descriptor;
  file_identity found{};
};

using opened_file = std::shared_ptr<const open_file>;

/// Keeps the files that were opened last. The one that was opened first is dropped, and is closed when its
/// reads have ended.
void keep_for_a_while(opened_file file) {
  constexpr std::size_t most = 128; // far below the usual limit of 1024 descriptors a process
  static std::mutex keeping;
  static std::array<opened_file, most> files;
  static std::size_t next = 0;
  const std::lock_guard lock(keeping);
  files[next++ % most].swap(file);
}

class file_source final : public byte_source {
public:
  file_source(const std::filesystem::path& file, bool keep_open)
      : file_source(file, std::make_shared<const open_file>(file), keep_open) {}
  ~file_source() override {
    if (!mapped_.empty()) {
      ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
    }
  }

  void read_at(std::uint64_t offset, std::span<std::byte> target) const override {
    const timed_part timed(read_part::file, target.size());
    const opened_file from = file();
    std::size_t done = 0;
    while (done != target.size()) {
      const ssize_t got = ::pread(from->descriptor, target.data() + done, target.size() - done,
                                  checked_cast<off_t>(offset + done, "file offset"));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        const int number = errno;
        const std::string what =
            concat("can't read ", target.size(), " bytes at offset ", offset, " of '", name(), "'");
        throw got < 0
            ? os_error(what, number)
            : error(errc::io, concat(what, ": the file was truncated, it ends at offset ", offset + done));
      }
      done += static_cast<std::size_t>(got);
    }
  }
  [[nodiscard]] std::span<const std::byte> view() const override {
    std::call_once(mapping_, [this] {
      if (size() == 0) {
        return;
      }
      const auto bytes = checked_cast<std::size_t>(size(), "file size");
      const opened_file from = file();
      // The mapping is private: a consumer that ignores the read-only flag writes to private pages and never to
      // the file. No memory is reserved for such pages, since files may be larger than memory. If the system
      // refuses this mapping, a read-only one is made.
      void* mapped =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, from->descriptor, 0);
      if (mapped == MAP_FAILED && errno == ENOMEM) {
        mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, from->descriptor, 0);
      }
      if (mapped == MAP_FAILED) {
        throw os_error("map", name(), errno);
      }
      mapped_ = {static_cast<const std::byte*>(mapped), bytes};
    });
    return mapped_;
  }
  [[nodiscard]] bool near_by() const noexcept override { return true; }

private:
  file_source(const std::filesystem::path& file, opened_file found, bool keep_open)
      : byte_source(file.string(), checked_cast<std::uint64_t>(found->found[2], "file size")),
        found_(found->found), kept_(keep_open ? found : nullptr), recent_(found) {
    if (!keep_open) {
      keep_for_a_while(std::move(found));
    }
  }
  [[nodiscard]] opened_file file() const {
    if (kept_ != nullptr) {
      return kept_;
    }
    const std::lock_guard lock(reopening_);
    opened_file current = recent_.lock();
    if (current == nullptr) {
      current = std::make_shared<const open_file>(name());
      if (current->found != found_) {
        throw error(errc::io, concat("'", name(), "' was replaced or changed while it was read"));
      }
      recent_ = current;
      keep_for_a_while(current);
    }
    return current;
  }

  file_identity found_;
  opened_file kept_; ///< null if the file is not kept open
  mutable std::mutex reopening_;
  mutable std::weak_ptr<const open_file> recent_;
  mutable std::once_flag mapping_;
  mutable std::span<const std::byte> mapped_; ///< empty for an empty file, which can't be mapped
};

} // namespace

source open_source(const std::filesystem::path& file, bool keep_open) {
  return std::make_shared<file_source>(file, keep_open);
}

} // namespace saeta::ipc::detail
