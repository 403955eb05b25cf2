// A build without IPC has no packed form, so no table leaves its device.
#include "schedules/random_program.hpp"

namespace saeta::schedules {

void random_program::spill() {
  throw error(errc::unsupported, "tables that leave their device need a build with IPC");
}
void random_program::end_tables() {}

} // namespace saeta::schedules
