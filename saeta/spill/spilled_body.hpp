// The bytes of a table outside of its device. Private to spill/.
//
// Owner     A body owns its memory or file, and its charge to the budget of the tier.
// Order     Page-locked memory is copied in order on the work stream; a body that is dropped keeps its memory
//           until queued copies have finished. The other copies have finished when the function returns.
// Thread    Any: a body never changes, so it may be restored while it is copied to a slower tier.
// Failure   The `..._body` functions throw and keep nothing. After a failed `restore` the body is unchanged.

#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/process.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/spill/spill.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saeta {

/// Bytes charged to the budget of a tier.
class tier_charge {
public:
  /// @throws error budget_exceeded.
  tier_charge(std::shared_ptr<budget> tier, std::uint64_t bytes);
  tier_charge(tier_charge&&) noexcept = default;
  tier_charge& operator=(tier_charge&&) = delete;
  ~tier_charge() {
    if (tier_) {
      tier_->refund(bytes_);
    }
  }

private:
  std::shared_ptr<budget> tier_; ///< null after a move
  std::uint64_t bytes_;
};

class spill_folder;

class spilled_body;
using spilled_pointer = std::shared_ptr<const spilled_body>;

class spilled_body {
public:
  spilled_body() = default;
  spilled_body(const spilled_body&) = delete;
  spilled_body& operator=(const spilled_body&) = delete;
  virtual ~spilled_body() = default;

  [[nodiscard]] virtual spill_tier tier() const noexcept = 0;
  /// The bytes that it takes there.
  [[nodiscard]] virtual std::uint64_t stored_bytes() const noexcept = 0;
  /// Copies the bytes into one allocation of `into`, ready on its work stream.
  [[nodiscard]] virtual buffer restore(const std::shared_ptr<context>& into) const = 0;
  /// The bytes of a body in host memory, in order. Waits for the copy that writes them.
  [[nodiscard]] virtual std::vector<std::span<const std::byte>> parts() const = 0;
  using mover = std::function<spilled_pointer(const spilled_body& from)>;
  /// A copy in a slower tier. @param move  copies bytes that are in one tier
  [[nodiscard]] virtual spilled_pointer moved(spill_tier /*to*/, const mover& move) const {
    return move(*this);
  }
};

/// The sizes of the page-locked blocks that a body is kept in. Page-locked memory comes in powers of two, so
/// one block would waste up to half of it.
[[nodiscard]] std::vector<std::size_t> pinned_sizes(std::size_t bytes);

[[nodiscard]] spilled_pointer pinned_body(const std::shared_ptr<context>& ctx, const buffer& body,
                                          tier_charge charge);
[[nodiscard]] spilled_pointer pageable_body(const std::shared_ptr<context>& ctx, const buffer& body,
                                            tier_charge charge);
/// @param window  host memory that the bytes of a device pass; not needed on the host
[[nodiscard]] spilled_pointer file_body(const std::shared_ptr<context>& ctx, const buffer& body,
                                        tier_charge charge, spill_folder& folder,
                                        std::span<std::byte> window);

/// Copies a body in host memory to pageable memory. @param bytes  of the body
[[nodiscard]] spilled_pointer moved_to_pageable(const std::shared_ptr<context>& ctx, const spilled_body& from,
                                                std::size_t bytes, tier_charge charge);
/// Copies a body in host memory to a file.
[[nodiscard]] spilled_pointer moved_to_file(const spilled_body& from, std::size_t bytes, tier_charge charge,
                                            spill_folder& folder);

// The files of spilled bodies.
//
// What      Files have no name: the system removes them with their last descriptor. Bodies lie one behind the
//           other in files of up to 4 GiB, because a process may have few files open. A body that ends leaves
//           a hole, whose blocks go back to the disk. Where a file system has no holes, each body has a file.
// Owner     A file lives as long as a body in it.
// Thread    Any.
// Fork      A forked child leaves the files of its parent alone.
// Failure   io, naming the folder.

/// An open file without a name.
class nameless_file {
public:
  explicit nameless_file(std::string folder);
  nameless_file(const nameless_file&) = delete;
  nameless_file& operator=(const nameless_file&) = delete;
  ~nameless_file();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] bool has_holes() const noexcept { return has_holes_; }
  /// The error of a call that has just set errno.
  [[nodiscard]] error failed(std::string_view action, int number) const;

private:
  std::string folder_;
  int descriptor_;
  bool has_holes_; ///< whether the file system can take blocks out of the middle of a file
};

/// The place of a body in a file. It becomes a hole when the place is dropped.
class file_range {
public:
  file_range(std::shared_ptr<const nameless_file> of, std::size_t offset, std::size_t bytes)
      : file_(std::move(of)), offset_(offset), bytes_(bytes) {}
  file_range(file_range&&) noexcept = default;
  file_range& operator=(file_range&&) = delete;
  ~file_range();

  /// @param at  from the beginning of the range
  void write(std::span<const std::byte> from, std::size_t at) const;
  [[nodiscard]] const nameless_file& file() const noexcept { return *file_; }
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; } ///< a multiple of the page size
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
  std::shared_ptr<const nameless_file> file_; ///< null after a move
  std::size_t offset_;
  std::size_t bytes_;
  std::uint64_t made_in_ = fork_generation();
};

/// Where spilled bodies find a place.
class spill_folder {
public:
  explicit spill_folder(std::string path) : path_(std::move(path)) {}

  /// Empty if no folder was chosen.
  [[nodiscard]] std::string path() const;
  [[nodiscard]] bool empty() const;
  /// Chooses another folder for later bodies. Others stay where they are.
  void choose(std::string path);
  [[nodiscard]] file_range take(std::size_t bytes);

private:
  mutable std::mutex mutex_;
  std::string path_;
  std::weak_ptr<const nameless_file> latest_;
  std::size_t used_ = 0; ///< bytes of the latest file
};

} // namespace saeta
