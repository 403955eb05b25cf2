// Files over one buffer: libarrow's RandomAccessFile to read it, and its WritableFile to write into it.
//
// @code
// buffer_writer target(arrow_buffer(bytes, access::write)); // keeps the buffer; writes at its beginning
// if (target.Write("orders", 6).ok() && target.Close().ok()) {
//   buffer_reader source(arrow_buffer(bytes));
//   const arrow::Result<std::shared_ptr<arrow::Buffer>> name = source.Read(6); // a slice of `bytes`
// }
// @endcode
//
// What      Both work on any kind of memory, also on the host. Reads return slices of the buffer, or copy
//           into host memory. Writes copy from host memory, at once or through a host buffer whose size the
//           caller sets.
// Owner     Both keep the buffer.
// Order     The host waits for every copy, because users may follow the buffer's address as soon as a call
//           returns. `Flush`, `Seek`, `WriteAt`, `SetBufferSize`, `Close` and the destructor write buffered
//           bytes. The destructor reports a failure.
// Thread    Any. Calls to a writer take turns.
// Failure   A Status: Invalid for a negative number (named) and for a closed file, IndexError naming the
//           numbers for bytes past the end. The failed call moves nothing.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/memory/buffer.hpp"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/config.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace SAETA_EXPORT saeta {

class context;

/// @throws error invalid_argument for a buffer without a memory manager of ours.
[[nodiscard]] std::shared_ptr<context> require_context_of(const arrow::Buffer& memory);

class buffer_reader final : public arrow::io::RandomAccessFile {
public:
  /// @throws error as `require_context_of`.
  explicit buffer_reader(std::shared_ptr<arrow::Buffer> source);

  arrow::Status Close() override;
  [[nodiscard]] bool closed() const override { return closed_; }
  [[nodiscard]] arrow::Result<std::int64_t> Tell() const override;
  /// Any position up to the end is valid, the end included.
  arrow::Status Seek(std::int64_t position) override;
  arrow::Result<std::int64_t> GetSize() override;
  [[nodiscard]] bool supports_zero_copy() const override { return true; }

  /// Copies bytes into host memory; fewer at the end.
  arrow::Result<std::int64_t> Read(std::int64_t bytes, void* out) override;
  /// Returns a slice of the buffer. It is shorter at the end of the buffer.
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override;
  /// The same from `position`. The file position does not change, unlike in the methods of the base class.
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes, void* out) override {
    return ReadAt(position, bytes, true, out);
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position, std::int64_t bytes) override {
    return ReadAt(position, bytes, true);
  }
#if ARROW_VERSION_MAJOR >= 25
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes, bool allow_short_read,
                                     void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position, std::int64_t bytes,
                                                       bool allow_short_read) override;
#else // the base class has no such functions yet
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes, bool allow_short_read,
                                     void* out);
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position, std::int64_t bytes,
                                                       bool allow_short_read);
#endif

private:
  /// How many of the bytes exist. @throws error closed, invalid_argument, out_of_range.
  [[nodiscard]] std::int64_t present(std::int64_t position, std::int64_t bytes, bool allow_short_read) const;
  void copy_out(std::int64_t position, std::int64_t bytes, void* out) const;

  const std::shared_ptr<arrow::Buffer> source_;
  const std::shared_ptr<context> ctx_;
  mutable std::mutex mutex_;
  std::int64_t position_ = 0;
  std::atomic<bool> closed_{false};
};

class buffer_writer final : public arrow::io::WritableFile {
public:
  /// Unbuffered, at the beginning.
  /// @throws error invalid_argument for an immutable buffer, and for one without a memory manager of ours.
  explicit buffer_writer(std::shared_ptr<arrow::Buffer> target);
  ~buffer_writer() override;

  /// Collects writes in host memory of this size. A write that would fill it bypasses it. 0: every write goes
  /// to the buffer at once.
  arrow::Status SetBufferSize(std::int64_t bytes); // NOLINT(readability-identifier-naming): as in libarrow
  [[nodiscard]] std::int64_t buffer_size() const;
  /// Bytes that are written but not flushed.
  [[nodiscard]] std::int64_t num_bytes_buffered() const;

  arrow::Status Close() override;
  [[nodiscard]] bool closed() const override;
  arrow::Status Flush() override;
  [[nodiscard]] arrow::Result<std::int64_t> Tell() const override;
  arrow::Status Seek(std::int64_t position) override;
  using Writable::Write;
  arrow::Status Write(const void* data, std::int64_t bytes) override;
  /// Moves the position to the end of the written bytes, as libarrow's files do.
  arrow::Status WriteAt(std::int64_t position, const void* data, std::int64_t bytes) override;

private:
  // The caller holds the mutex. These functions throw error.
  void require_open() const;
  void require_place(std::int64_t position, std::int64_t bytes) const;
  void seek(std::int64_t position);
  void write(const void* data, std::int64_t bytes);
  void flush();
  void send(std::int64_t position, const void* data, std::int64_t bytes);

  const std::shared_ptr<arrow::Buffer> target_;
  const std::shared_ptr<context> ctx_;
  mutable std::mutex mutex_;
  std::int64_t position_ = 0; ///< of the next write; buffered bytes come before it
  std::int64_t size_limit_ = 0;
  std::vector<std::byte> waiting_;
  bool closed_ = false;
};

} // namespace saeta
