// Decorator: finds misuse of memory. It poisons memory on allocate (0xA5) and on free (0xDD), checks canaries
// at both ends at free, keeps freed blocks in a quarantine and checks their poison when they leave it, and
// detects overlaps.
//
// @code
// const auto guard = std::make_shared<guard_resource>(upstream, device);
// const block memory = guard->allocate(4096, 0, stream); // poisoned, with canaries around it
// const bool freed = guard->deallocate(memory, stream);  // stays in quarantine
// if (guard->check() != 0) {                             // waits for the device
//   std::cerr << guard->findings().front().text;
// }
// @endcode
//
// What      Each block gets a canary of 256 bytes before and after it. A budget above the guard does not
//           count them, one below does.
// Order     Canaries and the poison of a new block are queued on its stream. The poison of a freed block is
//           queued on the guard's stream, after the last use. A freed block stays in quarantine until the
//           quarantine holds more than `quarantine` bytes, until trim(), until upstream has no memory, or
//           until the end. The oldest block leaves first: its canaries and poison are read back on the
//           guard's stream, the host waits for that, and the block goes back upstream.
// Failure   A finding is reported (base/report.hpp) once for each block and kind, kept and counted. Nothing
//           aborts, and the memory is freed as usual. A block that the guard does not know (freed twice, say)
//           is not taken back. A block that upstream refuses to take back stays in quarantine and is offered
//           again.
// Thread    Any. Reports are made without holding a lock of the guard.
// Cost      Copies and waits that the context's counters do not see. The guard is a debugging tool: not for
//           production, and not for streams that capture a graph.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/resource/resource.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

struct guard_options {
  std::size_t quarantine = 64u << 20; ///< maximum bytes of freed blocks that are kept from reuse; 0: none
};

struct guard_finding {
  enum class kind { front_canary, back_canary, written_after_free, overlap, unknown_block };
  kind found;
  tag label;
  std::uint64_t generation = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0; ///< size of the block
  std::int64_t offset = 0; ///< of the first wrong byte, from the start of the block; negative before it
  std::string text;        ///< the finding as one line
};

struct guard_state;

class guard_resource final : public decorator {
public:
  guard_resource(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
                 guard_options options = {});
  ~guard_resource() override;

  /// Checks and empties the quarantine. Returns the bytes that upstream took back.
  std::size_t empty_quarantine();
  /// Empties the quarantine before trimming upstream.
  std::size_t trim() override;
  /// Waits for all work of the device, then checks the blocks in quarantine and the canaries of live blocks.
  /// Returns the number of findings so far. @throws error busy while a stream of the device captures a graph.
  std::size_t check();
  [[nodiscard]] std::vector<guard_finding> findings() const;

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override;

  std::unique_ptr<guard_state> state_;
};

} // namespace saeta
