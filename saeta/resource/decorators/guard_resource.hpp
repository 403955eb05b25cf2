// Decorator: finds misuse of memory. Poison on allocate and on free, canaries at both ends that are checked at free, a
// quarantine before reuse whose poison is checked when a block leaves it, and overlap detection.
//
// What      Each block gets `canary` bytes before and behind; a budget above does not see them, one below does.
// Order     Canaries and the poison of a new block are queued on its stream, the poison of a freed one on a stream of the
//           guard, after the last use. A freed block lies in quarantine until that holds more than `quarantine` bytes, until
//           trim(), until upstream has no memory, or until the end. It leaves, oldest first: its canaries and its poison
//           are read back on the stream of the guard, the host waits for that, and the block goes back upstream.
// Failure   A finding is reported (base/report.hpp), once for each block and kind, kept and counted; nothing aborts and
//           the memory goes its way. A block that the guard does not know (freed twice, say) is not taken back. What
//           upstream refuses to take back stays in quarantine and is offered again.
// Thread    Any. Reports are made under no lock of the guard's.
// Cost      Copies and waits that no counter of a context sees: a tool for finding faults, not for production, and not
//           for streams that capture a graph.
#pragma once

#include "saeta/resource/resource.hpp"

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
  kind found;
  tag label;
  std::uint64_t generation = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0; ///< of the block
  std::int64_t offset = 0; ///< first wrong byte, from the start of the block; negative before it
  std::string text;        ///< all of it as one line
};

struct guard_state;

class guard_resource final : public decorator {
public:
  /// @throws error invalid_argument for a canary that is no multiple of 256.
  guard_resource(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
                 guard_options options = {});
  ~guard_resource() override;

  /// Checks and empties the quarantine: bytes that a budget below gets back.
  std::size_t empty_quarantine();
  /// Empties the quarantine first.
  std::size_t trim() override;
  /// Checks what is in quarantine now and the canaries of what is live, waiting for all work of the device; returns the
  /// number of findings so far. @throws error busy while a stream of the device captures a graph.
  std::size_t check();
  [[nodiscard]] std::vector<guard_finding> findings() const;

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;

  std::unique_ptr<guard_state> state_;
};

} // namespace saeta
