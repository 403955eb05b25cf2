#include "saeta/base/foreign_call.hpp"

#include <unistd.h>

namespace saeta {

void stop_this_thread() noexcept {
  while (true) {
    ::pause();
  }
}

} // namespace saeta
