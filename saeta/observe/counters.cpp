#include "saeta/observe/counters.hpp"

namespace saeta {

counter_values counters::read() const noexcept {
  counter_values now;
  now.host_to_device = host_to_device.read();
  now.device_to_host = device_to_host.read();
  now.device_to_device = device_to_device.read();
  now.host_to_host = host_to_host.read();
  now.peer_to_device = peer_to_device.read();
  now.scalars = scalars.read();
  now.exports = exports.load();
  now.synchronizations = synchronizations.load();
  now.staged = staged.load();
  return now;
}

void counters::reset() noexcept {
  host_to_device.reset();
  device_to_host.reset();
  device_to_device.reset();
  host_to_host.reset();
  peer_to_device.reset();
  scalars.reset();
  exports = 0;
  synchronizations = 0;
  staged = 0;
}

} // namespace saeta
