// Bodies in files.
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/spill/spill_file.hpp"
#include "saeta/spill/spilled_body.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/staging/transfer_plan.hpp"

#include <algorithm>
#include <cerrno>
#include <span>

#include <sys/mman.h>

namespace saeta {
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
  body_in_file(tier_charge charge, file_range place)
      : spilled_body(std::move(charge)), place_(std::move(place)) {}

  [[nodiscard]] spill_tier tier() const noexcept override { return spill_tier::file; }

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
  file_range place_;
};

} // namespace

spilled_pointer file_body(const std::shared_ptr<context>& ctx, const buffer& body, tier_charge charge,
                          spill_folder& folder, std::span<std::byte> window) {
  file_range place = folder.take(body.size());
  if (ctx->on_host()) {
    use_token token(ctx->work_stream(), {reads(body)});
    place.write({token.data<std::byte>(body), body.size()}, 0);
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
