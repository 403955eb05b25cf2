// A simulated device that runs work only when a call waits for it.
#pragma once

#include "saeta/backend/sim/sim.hpp"

#include <memory>

namespace saeta::unit {

inline std::shared_ptr<sim::device> make_held_device() {
  sim::options chosen;
  chosen.run_percent = 0;
  return sim::device::create(chosen);
}

} // namespace saeta::unit
