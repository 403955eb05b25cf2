#include "saeta/ipc/write/piece_sink.hpp"

#include "saeta/base/os_error.hpp"
#include "saeta/ipc/arrow_status.hpp"

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

piece_sink::piece_sink(write_team& team, int descriptor, std::filesystem::path name)
    : team_(team), descriptor_(descriptor), name_(std::move(name)), open_(std::make_shared<piece>()) {}

arrow::Status piece_sink::Write(const void* data, std::int64_t bytes) {
  return Write(std::shared_ptr<arrow::Buffer>(arrow::Buffer::FromString(
      std::string(static_cast<const char*>(data), static_cast<std::size_t>(bytes)))));
}

arrow::Status piece_sink::Write(const std::shared_ptr<arrow::Buffer>& data) {
  return run_guarded([&] { add(data); });
}

arrow::Status piece_sink::Flush() {
  return run_guarded([&] { send(); });
}

void piece_sink::add(const std::shared_ptr<arrow::Buffer>& data) {
  const auto bytes = static_cast<std::size_t>(data->size());
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t room = piece_bytes - static_cast<std::size_t>(written_ % piece_bytes);
    const std::size_t taken = std::min(room, bytes - at);
    open_->parts.push_back({const_cast<std::uint8_t*>(data->data()) + at, taken});
    open_->bytes += taken;
    at += taken;
    written_ += taken;
    open_->kept.push_back(data);
    if (taken == room || open_->parts.size() == most_parts) {
      send();
    }
  }
}

void piece_sink::send() {
  if (open_->bytes == 0) {
    return;
  }
  auto full = std::exchange(open_, std::make_shared<piece>());
  open_->offset = written_;
  const std::size_t bytes = full->bytes;
  team_.queue(bytes, [full = std::move(full), descriptor = descriptor_, name = name_] {
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
  send();
  team_.finish();
  return written_;
}

} // namespace saeta::ipc::detail
