// Bodies in host memory: page-locked and pageable.

#include "saeta/spill/spilled_body.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/staging/transfer_plan.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace saeta {
namespace {

constexpr const char* spill_tag = "spill";
/// Long enough for the rate of the link. Blocks of one size serve bodies of any size.
constexpr std::size_t largest_piece = std::size_t{32} << 20;
constexpr std::size_t smallest_piece = std::size_t{1} << 20;

class body_in_pinned_memory final : public spilled_body {
public:
  /// @param written  passes when the bytes are in the pieces
  body_in_pinned_memory(tier_charge charge, std::vector<buffer> pieces, point written)
      : charge_(std::move(charge)), pieces_(std::move(pieces)), written_(written) {}

  [[nodiscard]] spill_tier tier() const noexcept override { return spill_tier::pinned; }

  [[nodiscard]] std::uint64_t stored_bytes() const noexcept override {
    std::uint64_t bytes = 0;
    for (const buffer& piece : pieces_) {
      bytes += piece.size();
    }
    return bytes;
  }

  [[nodiscard]] buffer restore(const std::shared_ptr<context>& into) const override {
    buffer body = buffer::allocate(into, stored_bytes(), into->work_stream(), spill_tag);
    copy(*into, body, pieces_, true);
    return body;
  }

  [[nodiscard]] std::vector<std::span<const std::byte>> parts() const override {
    point_set awaited;
    awaited.add(written_);
    pieces_.front().owner()->ctx()->synchronize(awaited);
    std::vector<std::span<const std::byte>> bytes;
    for (const buffer& piece : pieces_) {
      bytes.emplace_back(reinterpret_cast<const std::byte*>(piece.address()), piece.size());
    }
    return bytes;
  }

  /// Queues one copy between a body and its pieces.
  static void copy(context& ctx, const buffer& body, std::span<const buffer> pieces, bool back) {
    std::vector<use> uses{back ? writes(body) : reads(body)};
    for (const buffer& piece : pieces) {
      uses.push_back(back ? reads(piece) : writes(piece));
    }
    use_token token(ctx.work_stream(), uses);
    std::vector<copy_range> ranges;
    std::size_t at = 0;
    for (const buffer& piece : pieces) {
      if (back) {
        ranges.push_back({token.span<std::byte>(body).data() + at, token.span<const std::byte>(piece).data(),
                          piece.size()});
      } else {
        ranges.push_back({token.span<std::byte>(piece).data(), token.span<const std::byte>(body).data() + at,
                          piece.size()});
      }
      at += piece.size();
    }
    const memory_kind host = pieces.front().kind();
    const copy_kind kind =
        back ? ctx.copies().kind_between(host, body.kind()) : ctx.copies().kind_between(body.kind(), host);
    ctx.copies().copy_all(ranges, kind, ctx.work_stream());
    ctx.copies().count_transfer(kind);
    token.finish();
  }

private:
  tier_charge charge_;
  std::vector<buffer> pieces_;
  point written_;
};

class body_in_pageable_memory final : public spilled_body {
public:
  body_in_pageable_memory(tier_charge charge, std::shared_ptr<std::byte> memory, std::size_t bytes)
      : charge_(std::move(charge)), memory_(std::move(memory)), bytes_(bytes) {}

  [[nodiscard]] spill_tier tier() const noexcept override { return spill_tier::pageable; }

  [[nodiscard]] std::uint64_t stored_bytes() const noexcept override { return bytes_; }

  [[nodiscard]] buffer restore(const std::shared_ptr<context>& into) const override {
    transfer_plan plan;
    plan.add({memory_.get(), bytes_});
    plan.finish();
    return staging_ring::of(into)->upload(into, plan, spill_tag).slice(0, bytes_);
  }

  [[nodiscard]] std::vector<std::span<const std::byte>> parts() const override {
    return {{memory_.get(), bytes_}};
  }

private:
  tier_charge charge_;
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_;
};

} // namespace

tier_charge::tier_charge(std::shared_ptr<budget> tier, std::uint64_t bytes)
    : tier_(std::move(tier)), bytes_(bytes) {
  if (auto refused = tier_->charge_or_refuse(bytes)) {
    throw error(std::move(*refused));
  }
}

std::vector<std::size_t> pinned_sizes(std::size_t bytes) {
  std::vector<std::size_t> sizes;
  while (bytes != 0) {
    const std::size_t power = std::clamp(std::bit_floor(bytes), smallest_piece, largest_piece);
    sizes.push_back(std::min(power, bytes));
    bytes -= sizes.back();
  }
  return sizes;
}

spilled_pointer pinned_body(const std::shared_ptr<context>& ctx, const buffer& body, tier_charge charge) {
  std::vector<buffer> pieces;
  for (const std::size_t bytes : pinned_sizes(body.size())) {
    pieces.push_back(buffer::allocate(ctx, bytes, ctx->work_stream(), spill_tag, 0, memory_kind::pinned));
  }
  body_in_pinned_memory::copy(*ctx, body, pieces, false);
  return std::make_shared<body_in_pinned_memory>(std::move(charge), std::move(pieces),
                                                 record(ctx->work_stream()));
}

spilled_pointer pageable_body(const std::shared_ptr<context>& ctx, const buffer& body, tier_charge charge) {
  landing_block memory = host_pool_of(ctx)->take(body.size(), ctx->charge_host(body.size(), spill_tag));
  const download_range all{body, memory.memory.get()};
  staging_ring::of(ctx)->download({&all, 1}, memory.fresh);
  return std::make_shared<body_in_pageable_memory>(std::move(charge), std::move(memory.memory), body.size());
}

spilled_pointer moved_to_pageable(const std::shared_ptr<context>& ctx, const spilled_body& from,
                                  std::size_t bytes, tier_charge charge) {
  landing_block memory = host_pool_of(ctx)->take(bytes, ctx->charge_host(bytes, spill_tag));
  std::byte* target = memory.memory.get();
  for (const auto& part : from.parts()) {
    target = std::ranges::copy(part, target).out;
  }
  ctx->copies().count().host_to_host.add_call(bytes);
  return std::make_shared<body_in_pageable_memory>(std::move(charge), std::move(memory.memory), bytes);
}

namespace {

constexpr std::size_t longest_file = std::size_t{4} << 30;
/// A multiple of the page size of every machine, so that a range can be mapped and its blocks given back.
constexpr std::size_t alignment = std::size_t{64} << 10;

error failed_in(const std::string& folder, std::string_view action, int number) {
  return os_error(concat("can't ", action, " a spill file in '", folder, "'"), number);
}

int open_in(const std::string& folder) {
  int result = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  // EOPNOTSUPP, EISDIR, EINVAL: a file system without such files
  if (result < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = (std::filesystem::path(folder) / ".saeta-spill-XXXXXX").string();
    result = ::mkostemp(name.data(), O_CLOEXEC);
    if (result >= 0) {
      ::unlink(name.c_str());
    }
  }
  if (result < 0) {
    throw failed_in(folder, "make", errno);
  }
  return result;
}

bool make_hole(int descriptor, std::size_t offset, std::size_t bytes) noexcept {
  return ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes)) == 0;
}

/// The bytes after which the next body begins a new file.
std::size_t file_limit() {
  rlimit allowed{};
  return ::getrlimit(RLIMIT_FSIZE, &allowed) == 0
             ? static_cast<std::size_t>(std::min<std::uint64_t>(allowed.rlim_cur, longest_file))
             : longest_file;
}

} // namespace

nameless_file::nameless_file(std::string folder)
    : folder_(std::move(folder)), descriptor_(open_in(folder_)),
      has_holes_(make_hole(descriptor_, 0, alignment)) {}

nameless_file::~nameless_file() { ::close(descriptor_); }

error nameless_file::failed(std::string_view action, int number) const {
  return failed_in(folder_, action, number);
}

file_range::~file_range() {
  // The system frees the blocks of a file that ends.
  if (file_ != nullptr && file_.use_count() > 1 && made_in_ == fork_generation()) {
    static_cast<void>(make_hole(file_->descriptor(), offset_, round_up(bytes_, alignment)));
  }
}

void file_range::write(std::span<const std::byte> from, std::size_t at) const {
  while (!from.empty()) {
    const ssize_t done =
        ::pwrite(file_->descriptor(), from.data(), from.size(), static_cast<off_t>(offset_ + at));
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      throw file_->failed(concat("write ", from.size(), " bytes to"), done == 0 ? ENOSPC : errno);
    }
    from = from.subspan(static_cast<std::size_t>(done));
    at += static_cast<std::size_t>(done);
  }
}

std::string spill_folder::path() const {
  const std::lock_guard held(mutex_);
  return path_;
}

bool spill_folder::empty() const { return path().empty(); }

void spill_folder::choose(std::string path) {
  const std::lock_guard held(mutex_);
  path_ = std::move(path);
  latest_.reset();
}

file_range spill_folder::take(std::size_t bytes) {
  const std::lock_guard held(mutex_);
  auto file = latest_.lock();
  if (file == nullptr || !file->has_holes() || used_ > file_limit() || bytes > file_limit() - used_) {
    file = std::make_shared<const nameless_file>(path_);
    latest_ = file;
    used_ = 0;
  }
  file_range place(std::move(file), used_, bytes);
  used_ += round_up(bytes, alignment);
  return place;
}

// Bodies in files.

namespace {

/// The address range of a place in a file. The staging ring names bytes of files by it, and reads them by
/// pread.
class file_mapping {
public:
  explicit file_mapping(const file_range& of)
      : memory_(::mmap(nullptr, of.bytes(), PROT_READ, MAP_SHARED, of.file().descriptor(),
                       static_cast<off_t>(of.offset()))),
        bytes_(of.bytes()) {
    if (memory_ == MAP_FAILED) {
      throw of.file().failed(concat("map ", of.bytes(), " bytes of"), errno);
    }
  }
  file_mapping(const file_mapping&) = delete;
  file_mapping& operator=(const file_mapping&) = delete;
  ~file_mapping() { ::munmap(memory_, bytes_); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(memory_), bytes_};
  }

private:
  void* memory_;
  std::size_t bytes_;
};

class body_in_file final : public spilled_body {
public:
  body_in_file(tier_charge charge, file_range place) : charge_(std::move(charge)), place_(std::move(place)) {}

  [[nodiscard]] spill_tier tier() const noexcept override { return spill_tier::file; }

  [[nodiscard]] std::uint64_t stored_bytes() const noexcept override { return place_.bytes(); }

  [[nodiscard]] buffer restore(const std::shared_ptr<context>& into) const override {
    const file_mapping mapped(place_);
    transfer_plan plan;
    plan.add(mapped.bytes());
    plan.finish();
    const file_region region{mapped.bytes().data(), place_.bytes(), place_.file().descriptor(),
                             place_.offset()};
    return staging_ring::of(into)->upload(into, plan, "spill", region).slice(0, place_.bytes());
  }

  [[nodiscard]] std::vector<std::span<const std::byte>> parts() const override { return {}; } // the last tier

private:
  tier_charge charge_;
  file_range place_;
};

} // namespace

spilled_pointer file_body(const std::shared_ptr<context>& ctx, const buffer& body, tier_charge charge,
                          spill_folder& folder, std::span<std::byte> window) {
  file_range place = folder.take(body.size());
  if (ctx->on_host()) {
    use_token token(ctx->work_stream(), {reads(body)});
    place.write({token.span<const std::byte>(body).data(), body.size()}, 0);
    token.finish();
  } else {
    const auto ring = staging_ring::of(ctx);
    for (std::size_t at = 0; at < body.size(); at += window.size()) {
      const std::size_t bytes = std::min(window.size(), body.size() - at);
      const download_range part{body.slice(at, bytes), window.data()};
      ring->download({&part, 1});
      place.write(window.first(bytes), at);
    }
  }
  return std::make_shared<body_in_file>(std::move(charge), std::move(place));
}

spilled_pointer moved_to_file(const spilled_body& from, std::size_t bytes, tier_charge charge,
                              spill_folder& folder) {
  file_range place = folder.take(bytes);
  std::size_t at = 0;
  for (const auto& part : from.parts()) {
    place.write(part, at);
    at += part.size();
  }
  return std::make_shared<body_in_file>(std::move(charge), std::move(place));
}

} // namespace saeta
