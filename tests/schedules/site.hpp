// Where a random program works: a simulated device, a context on it, and streams of ours and of others.
//
// Owner     The program. The context goes before the streams of others are destroyed.
#pragma once

#include "saeta/backend/sim/sim.hpp"
#include "saeta/memory/context.hpp"
#include "schedules/draw.hpp"

#include <vector>

namespace saeta::schedules {

struct site {
  std::shared_ptr<sim::device> device;
  sim::usage before;
  std::shared_ptr<context> ctx;
  std::vector<stream_lease> leases;
  std::vector<stream_handle> foreign;
};

/// A device beside `beside`, or the first of a machine, with a context whose resources are drawn.
[[nodiscard]] site make_site(std::uint64_t seed, std::int32_t ordinal,
                             const std::shared_ptr<sim::device>& beside, std::uint64_t budget, draw& choice);

/// How often calls of the driver fail while this lives, in percent.
class failure_rate {
public:
  failure_rate(const std::vector<site>& sites, unsigned percent, unsigned afterwards)
      : sites_(sites), afterwards_(afterwards) {
    set(percent);
  }
  failure_rate(const failure_rate&) = delete;
  failure_rate& operator=(const failure_rate&) = delete;
  ~failure_rate() { set(afterwards_); }

private:
  void set(unsigned percent) {
    for (const site& each : sites_) {
      each.device->set_fail_percent(percent);
    }
  }

  const std::vector<site>& sites_;
  unsigned afterwards_;
};

} // namespace saeta::schedules
