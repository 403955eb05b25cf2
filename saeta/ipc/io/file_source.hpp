// A regular file as a source: read with `pread`, mapped only when a view is requested.
//
// What      Mapped bytes stay readable when another file takes the name, but not when the file is shortened
//           meanwhile.
// Owner     The mapping and the descriptor live as long as the source, which is shared.
// Thread    Any.
// Failure   error io: missing, not a regular file (a directory, for example), unreadable, not mappable.
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
  /// Closes the descriptor in its destructor.
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
