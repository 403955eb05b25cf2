// A simulated device of a random program, with a context, its streams, and streams of other libraries.
//
// Owner     The program. It destroys the context before the streams of other libraries.
#pragma once

#include "saeta/backend/sim/sim.hpp"
#include "saeta/memory/context.hpp"
#include "schedules/draw.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace saeta::schedules {

struct site {
  std::shared_ptr<sim::device> device;
  sim::usage before;
  std::shared_ptr<context> ctx;
  std::vector<stream_lease> leases;
  std::vector<stream_handle> foreign;
  unsigned fail_percent = 0; ///< chance that a call of its backend fails
};

/// The size of every spillable table. Page-locked memory for them is allocated in advance, so that no
/// background thread of the library does it and a seed always gives the same program.
inline constexpr std::size_t table_bytes = 64U << 10U;

/// Makes a device on the machine of `beside`, or on a new one, with a context whose base resource is random.
[[nodiscard]] site make_site(std::uint64_t seed, std::int32_t ordinal,
                             const std::shared_ptr<sim::device>& beside, std::uint64_t budget, draw& choice);
/// Allocates page-locked memory of the device. A copy to pageable memory would be synchronous.
[[nodiscard]] std::shared_ptr<std::uint8_t> make_landing(const site& of, std::size_t bytes);

void set_fail_percent(std::vector<site>& sites, unsigned percent);

/// Sets the chance in percent that a call of the backend fails, until the end of the scope. May be nested.
class failure_rate {
public:
  failure_rate(std::vector<site>& sites, unsigned percent)
      : sites_(sites), before_(sites.front().fail_percent) {
    set_fail_percent(sites, percent);
  }
  failure_rate(const failure_rate&) = delete;
  failure_rate& operator=(const failure_rate&) = delete;
  ~failure_rate() { set_fail_percent(sites_, before_); }

private:
  std::vector<site>& sites_;
  unsigned before_;
};

} // namespace saeta::schedules
