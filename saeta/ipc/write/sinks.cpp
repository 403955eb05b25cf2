#include "saeta/ipc/write/sinks.hpp"

#include "saeta/base/os_error.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace saeta::ipc::detail {
namespace {

/// Removes the bytes that have been written from the parts.
void skip(std::vector<iovec>& parts, std::size_t& first, std::size_t written) {
  while (written != 0) {
    iovec& part = parts[first];
    const std::size_t taken = std::min(written, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + taken;
    part.iov_len -= taken;
    written -= taken;
    first += part.iov_len == 0 ? 1 : 0;
  }
}

} // namespace

piece_sink::piece_sink(thread_pool& pool, int descriptor, std::filesystem::path name)
    : pool_(pool), descriptor_(descriptor), name_(std::move(name)), open_(std::make_shared<piece>()) {}

void piece_sink::write(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) {
  while (!bytes.empty()) {
    const std::size_t room = piece_bytes - static_cast<std::size_t>(taken_ % piece_bytes);
    const std::size_t part = std::min(room, bytes.size());
    open_->parts.push_back({const_cast<std::byte*>(bytes.data()), part});
    open_->bytes += part;
    taken_ += part;
    bytes = bytes.subspan(part);
    if (owner != nullptr && (open_->kept.empty() || open_->kept.back() != owner)) {
      open_->kept.push_back(owner);
    }
    if (part == room || open_->parts.size() == most_parts) {
      flush();
    }
  }
}

void piece_sink::flush() {
  if (open_->bytes == 0) {
    return;
  }
  auto full = std::exchange(open_, std::make_shared<piece>());
  open_->offset = taken_;
  const std::size_t bytes = full->bytes;
  pool_.queue(bytes, [full = std::move(full), descriptor = descriptor_, name = name_] {
    put(descriptor, name, *full);
  });
}

void piece_sink::put(int descriptor, const std::filesystem::path& name, piece& which) {
  std::size_t first = 0;
  auto at = static_cast<off_t>(which.offset);
  while (first != which.parts.size()) {
    const ssize_t written =
        ::pwritev(descriptor, which.parts.data() + first, static_cast<int>(which.parts.size() - first), at);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      throw os_error("write", name, written == 0 ? ENOSPC : errno);
    }
    skip(which.parts, first, static_cast<std::size_t>(written));
    at += written;
  }
}

std::uint64_t piece_sink::finish() {
  flush();
  pool_.wait_until([] { return false; });
  return taken_;
}

} // namespace saeta::ipc::detail
