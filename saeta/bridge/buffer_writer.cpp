#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/buffer_io.hpp"
#include "saeta/bridge/copies.hpp"

#include <algorithm>

namespace saeta {
namespace {

std::shared_ptr<context> require_writable(const arrow::Buffer& target) {
  std::shared_ptr<context> ctx = require_context_of(target);
  if (!target.is_mutable()) {
    throw error(errc::invalid_argument, concat("the buffer of ", target.size(), " bytes is not mutable"));
  }
  return ctx;
}

} // namespace

buffer_writer::buffer_writer(std::shared_ptr<arrow::Buffer> target)
    : target_(required(std::move(target), "target")), ctx_(require_writable(*target_)) {
  set_mode(arrow::io::FileMode::WRITE);
}

buffer_writer::~buffer_writer() {
  try {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      flush();
    }
  } catch (...) {
    report_current_exception("buffer_writer");
  }
}

void buffer_writer::require_open() const {
  if (closed_) {
    throw error(errc::closed, "write to a closed file");
  }
}

void buffer_writer::require_place(std::int64_t position, std::int64_t bytes) const {
  if (position < 0 || bytes < 0) {
    throw error(errc::invalid_argument,
                concat("write of ", bytes, " bytes at position ", position, ": neither can be negative"));
  }
  const std::int64_t size = target_->size();
  if (position > size || bytes > size - position) {
    throw error(errc::out_of_range, concat("write of ", bytes, " bytes at position ", position,
                                           " of a buffer of ", size, " bytes"));
  }
}

void buffer_writer::send(std::int64_t position, const void* data, std::int64_t bytes) {
  const buffer all = bytes_of(ctx_, target_);
  const auto size = static_cast<std::size_t>(bytes);
  write_bytes(all.slice(static_cast<std::size_t>(position), size),
              {static_cast<const std::byte*>(data), size});
}

void buffer_writer::flush() {
  if (waiting_.empty()) {
    return;
  }
  const auto bytes = static_cast<std::int64_t>(waiting_.size());
  send(position_ - bytes, waiting_.data(), bytes);
  waiting_.clear();
}

void buffer_writer::seek(std::int64_t position) {
  require_open();
  require_place(position, 0);
  flush();
  position_ = position;
}

void buffer_writer::write(const void* data, std::int64_t bytes) {
  require_open();
  require_place(position_, bytes);
  if (bytes == 0) {
    return;
  }
  // As in pyarrow.cuda: a write that would fill the host buffer bypasses it.
  if (bytes >= size_limit_ - static_cast<std::int64_t>(waiting_.size())) {
    flush();
    send(position_, data, bytes);
  } else {
    const auto* const first = static_cast<const std::byte*>(data);
    waiting_.insert(waiting_.end(), first, first + bytes);
  }
  position_ += bytes;
}

arrow::Status buffer_writer::SetBufferSize(std::int64_t bytes) {
  return bridge::run_guarded([&] {
    const std::lock_guard lock(mutex_);
    require_open();
    if (bytes < 0) {
      throw error(errc::invalid_argument, concat("the size of a host buffer can't be negative, got ", bytes));
    }
    flush();
    waiting_.reserve(static_cast<std::size_t>(std::min(bytes, target_->size())));
    size_limit_ = bytes;
  });
}

std::int64_t buffer_writer::buffer_size() const {
  const std::lock_guard lock(mutex_);
  return size_limit_;
}

std::int64_t buffer_writer::num_bytes_buffered() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(waiting_.size());
}

arrow::Status buffer_writer::Close() {
  return bridge::run_guarded([&] {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      flush();
      closed_ = true;
    }
  });
}

bool buffer_writer::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

arrow::Status buffer_writer::Flush() {
  return bridge::run_guarded([&] {
    const std::lock_guard lock(mutex_);
    require_open();
    flush();
  });
}

arrow::Result<std::int64_t> buffer_writer::Tell() const {
  return bridge::run_guarded([&]() -> arrow::Result<std::int64_t> {
    const std::lock_guard lock(mutex_);
    require_open();
    return position_;
  });
}

arrow::Status buffer_writer::Seek(std::int64_t position) {
  return bridge::run_guarded([&] {
    const std::lock_guard lock(mutex_);
    seek(position);
  });
}

arrow::Status buffer_writer::Write(const void* data, std::int64_t bytes) {
  return bridge::run_guarded([&] {
    const std::lock_guard lock(mutex_);
    write(data, bytes);
  });
}

arrow::Status buffer_writer::WriteAt(std::int64_t position, const void* data, std::int64_t bytes) {
  return bridge::run_guarded([&] {
    const std::lock_guard lock(mutex_);
    require_open();
    require_place(position, bytes); // before anything moves
    seek(position);
    write(data, bytes);
  });
}

} // namespace saeta
