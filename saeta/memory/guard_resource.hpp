// Decorator: finds misuse of memory. Poison on allocate and on free, canaries at both ends that are checked at free, a
// quarantine before reuse whose poison is checked when a block leaves it, and overlap detection.
//
// What      Each block gets `canary` bytes before and behind; the budget above does not see them.
// Order     Poison and checks are queued on the stream of the call; a block leaves the quarantine, oldest first, once it
//           holds more than `quarantine` bytes, on trim() and at the end. Then the host waits for the checks.
// Failure   A finding is reported (base/report.hpp), kept and counted; nothing aborts and the memory goes its way.
// Thread    Any. Costs copies that no counter of a context sees: a tool for finding faults, not for production.
#pragma once

#include "saeta/memory/resource.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace saeta {

struct guard_options {
  std::size_t canary = 256;           ///< bytes at each end, a multiple of 256; 0: none
  bool poison = true;                 ///< fill on allocate (0xA5) and on free (0xDD)
  std::size_t quarantine = 64u << 20; ///< bytes that are freed and not reused yet; 0: none
};

struct guard_finding {
  enum class kind { front_canary, back_canary, written_after_free, overlap, unknown_block };
  kind what;
  tag label;
  std::uint64_t generation = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0; ///< of the block
  std::int64_t offset = 0; ///< first wrong byte, from the start of the block; negative before it
  std::string text;        ///< all of it as one line
};

class guard_resource final : public decorator {
public:
  guard_resource(std::shared_ptr<resource> upstream, std::shared_ptr<backend> device,
                 guard_options options = {});
  ~guard_resource() override;

  /// Checks and empties the quarantine first.
  std::size_t trim() override;
  [[nodiscard]] release_order order() const noexcept override { return release_order::by_stream; }
  /// Checks what is in quarantine now and the canaries of what is live, waiting for all work of the device; returns the
  /// number of findings so far.
  std::size_t check();
  [[nodiscard]] std::vector<guard_finding> findings() const;

private:
  block do_allocate(const allocation_request& what, stream_ref stream) override;
  bool do_deallocate(const block& what, stream_ref stream) noexcept override;

  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace saeta
