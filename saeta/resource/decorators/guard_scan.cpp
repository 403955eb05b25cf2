#include "saeta/resource/decorators/guard_scan.hpp"

#include "saeta/base/report.hpp"

#include <algorithm>
#include <cstring>

namespace saeta {
namespace {

constexpr std::size_t landing_bytes = 1u << 20;

std::optional<wrong_byte> first_wrong(std::span<const std::uint8_t> bytes, std::uint8_t expected) {
  const auto all_alike = [&] {
    return bytes.front() == expected && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
  };
  if (bytes.empty() || all_alike()) {
    return std::nullopt;
  }
  const auto wrong =
      std::find_if(bytes.begin(), bytes.end(), [&](std::uint8_t byte) { return byte != expected; });
  return wrong_byte{static_cast<std::size_t>(wrong - bytes.begin()), *wrong};
}

} // namespace

guard_scanner::guard_scanner(const std::shared_ptr<timelines>& clock)
    : device_(clock->device().shared_from_this()), stream_(clock),
      landing_(static_cast<std::uint8_t*>(device_->allocate_pinned(landing_bytes))) {}

guard_scanner::~guard_scanner() {
  try {
    synchronize();
  } catch (...) {
    report_current_exception("guard_scanner");
  }
  if (!device_->deallocate_pinned(landing_, landing_bytes)) {
    report("guard_scanner", "page-locked memory could not be freed");
  }
}

void guard_scanner::synchronize() const { device_->synchronize_stream(stream_.ref().native_handle()); }

std::vector<std::optional<wrong_byte>> guard_scanner::scan(std::span<const guard_region> regions) {
  std::vector<std::optional<wrong_byte>> bytes(regions.size());
  std::vector<piece> queued;
  std::size_t used = 0;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    for (std::size_t offset = 0; offset < regions[i].bytes;) {
      const piece next{i, offset, used, std::min(regions[i].bytes - offset, landing_bytes - used)};
      queue_copy(regions[i], next);
      queued.push_back(next);
      offset += next.bytes;
      used += next.bytes;
      if (used == landing_bytes) {
        compare(regions, queued, bytes);
        queued.clear();
        used = 0;
      }
    }
  }
  compare(regions, queued, bytes);
  return bytes;
}

void guard_scanner::queue_copy(const guard_region& from, const piece& part) const {
  const bool on_host = device_->device().kind == device_kind::cpu;
  device_->copy(landing_ + part.at, from.address + part.offset, part.bytes,
                on_host ? copy_kind::host_to_host : copy_kind::device_to_host, stream_.ref().native_handle());
}

void guard_scanner::compare(std::span<const guard_region> regions, std::span<const piece> parts,
                            std::vector<std::optional<wrong_byte>>& found) const {
  synchronize();
  for (const piece& part : parts) {
    if (found[part.region]) {
      continue; // an earlier piece holds the first wrong byte
    }
    found[part.region] = first_wrong({landing_ + part.at, part.bytes}, regions[part.region].expected);
    if (found[part.region]) {
      found[part.region]->offset += part.offset;
    }
  }
}

} // namespace saeta
