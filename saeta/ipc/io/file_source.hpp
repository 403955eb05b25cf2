// A regular file as a source: read by `pread`, mapped only when somebody wants views.
//
// What      What was mapped stays readable when the name is taken by another file; a file that others shorten meanwhile
//           does not.
// Owner     The mapping and the descriptor go with the last that shares the source.
// Thread    Any.
// Failure   error io: missing, a directory or another thing that is not a regular file, unreadable, not mappable.
#pragma once

#include "saeta/ipc/io/source.hpp"

#include <mutex>
#include <utility>

namespace saeta::ipc::detail {

class file_source final : public byte_source {
public:
  static std::shared_ptr<const file_source> open(const std::filesystem::path& file);
  ~file_source() override;

  void read_at(std::uint64_t offset, std::span<std::byte> target) const override;
  [[nodiscard]] std::span<const std::byte> view() const override;
  [[nodiscard]] int descriptor() const noexcept override { return descriptor_.value; }

private:
  /// Closed with its owner.
  struct open_descriptor {
    explicit open_descriptor(int of) noexcept : value(of) {}
    open_descriptor(open_descriptor&& other) noexcept : value(std::exchange(other.value, -1)) {}
    open_descriptor& operator=(open_descriptor&&) = delete;
    ~open_descriptor();
    int value;
  };
  file_source(std::string name, std::uint64_t size, open_descriptor descriptor)
      : byte_source(std::move(name), size), descriptor_(std::move(descriptor)) {}

  open_descriptor descriptor_;
  mutable std::once_flag mapping_;
  mutable std::span<const std::byte> mapped_; ///< empty for an empty file, which can't be mapped
};

} // namespace saeta::ipc::detail
