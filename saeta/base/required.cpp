#include "saeta/base/required.hpp"

namespace saeta {

void refuse_moved_from(std::string_view object) {
  throw error(errc::closed, concat("the ", object, " was moved from"));
}

} // namespace saeta
