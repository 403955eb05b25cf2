#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/buffer_io.hpp"
#include "saeta/bridge/copies.hpp"

#include <algorithm>

namespace saeta {

std::shared_ptr<context> require_context_of(const arrow::Buffer& memory) {
  std::shared_ptr<context> ctx = context_of(*memory.memory_manager());
  if (ctx == nullptr) {
    throw error(errc::invalid_argument,
                concat("a buffer on ", memory.device()->ToString(), " does not belong to a Saeta context"));
  }
  return ctx;
}

buffer_reader::buffer_reader(std::shared_ptr<arrow::Buffer> source)
    : source_(required(std::move(source), "source")), ctx_(require_context_of(*source_)) {}

arrow::Status buffer_reader::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

std::int64_t buffer_reader::present(std::int64_t position, std::int64_t bytes, bool allow_short_read) const {
  if (closed_) {
    throw error(errc::closed, "read of a closed file");
  }
  if (position < 0 || bytes < 0) {
    throw error(errc::invalid_argument,
                concat("read of ", bytes, " bytes at position ", position, ": neither can be negative"));
  }
  const std::int64_t size = source_->size();
  if (position > size || (!allow_short_read && bytes > size - position)) {
    throw error(errc::out_of_range, concat("read of ", bytes, " bytes at position ", position,
                                           " of a buffer of ", size, " bytes"));
  }
  return std::min(bytes, size - position);
}

void buffer_reader::copy_out(std::int64_t position, std::int64_t bytes, void* out) const {
  if (bytes == 0) {
    return;
  }
  // Called for each read: memory of other libraries is read after all work that is queued by now.
  const buffer all = bytes_of(ctx_, source_);
  download(all.slice(static_cast<std::size_t>(position), static_cast<std::size_t>(bytes)),
           {static_cast<std::byte*>(out), static_cast<std::size_t>(bytes)});
}

arrow::Result<std::int64_t> buffer_reader::Tell() const {
  return bridge::run_guarded([&]() -> arrow::Result<std::int64_t> {
    static_cast<void>(present(0, 0, true));
    const std::lock_guard lock(mutex_);
    return position_;
  });
}

arrow::Status buffer_reader::Seek(std::int64_t position) {
  return bridge::run_guarded([&] {
    static_cast<void>(present(position, 0, true));
    const std::lock_guard lock(mutex_);
    position_ = position;
  });
}

arrow::Result<std::int64_t> buffer_reader::GetSize() {
  return bridge::run_guarded([&]() -> arrow::Result<std::int64_t> {
    static_cast<void>(present(0, 0, true));
    return source_->size();
  });
}

arrow::Result<std::int64_t> buffer_reader::Read(std::int64_t bytes, void* out) {
  return bridge::run_guarded([&]() -> arrow::Result<std::int64_t> {
    const std::lock_guard lock(mutex_);
    const std::int64_t there = present(position_, bytes, true);
    copy_out(position_, there, out);
    position_ += there;
    return there;
  });
}

arrow::Result<std::shared_ptr<arrow::Buffer>> buffer_reader::Read(std::int64_t bytes) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::Buffer>> {
    const std::lock_guard lock(mutex_);
    const std::int64_t there = present(position_, bytes, true);
    auto part = arrow::SliceBuffer(source_, position_, there);
    position_ += there;
    return part;
  });
}

arrow::Result<std::int64_t> buffer_reader::ReadAt(std::int64_t position, std::int64_t bytes,
                                                  bool allow_short_read, void* out) {
  return bridge::run_guarded([&]() -> arrow::Result<std::int64_t> {
    const std::int64_t there = present(position, bytes, allow_short_read);
    copy_out(position, there, out);
    return there;
  });
}

arrow::Result<std::shared_ptr<arrow::Buffer>> buffer_reader::ReadAt(std::int64_t position, std::int64_t bytes,
                                                                    bool allow_short_read) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::Buffer>> {
    return arrow::SliceBuffer(source_, position, present(position, bytes, allow_short_read));
  });
}

} // namespace saeta
