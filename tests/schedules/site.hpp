// Where a random program works: a simulated device, a context on it, and streams of ours and of others.
//
// Owner     The program. The context goes before the streams of others are destroyed.
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
  unsigned fail_percent = 0; ///< how often calls of its driver fail
};

/// The only size of tables that leave a device. Page-locked memory for some of them lies ready: no thread of
/// the library has to make it, so a seed always gives the same program.
inline constexpr std::size_t table_bytes = 64U << 10U;

/// A device beside `beside`, or the first of a machine, with a context whose resources are drawn.
[[nodiscard]] site make_site(std::uint64_t seed, std::int32_t ordinal,
                             const std::shared_ptr<sim::device>& beside, std::uint64_t budget, draw& choice);
/// Page-locked memory of the device: a copy from the device to other host memory would wait until it has run.
[[nodiscard]] std::shared_ptr<std::uint8_t> make_landing(const site& of, std::size_t bytes);

void set_fail_percent(std::vector<site>& sites, unsigned percent);

/// How often calls of the driver fail while this lives, in percent. May be nested.
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
