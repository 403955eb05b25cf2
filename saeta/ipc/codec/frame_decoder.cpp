#include "saeta/ipc/codec/frame_decoder.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"

namespace saeta::ipc::detail {

void frame_decoder::reset() {
  restart();
  read_ = 0;
  made_ = 0;
  finished_ = false;
}

frame_decoder::part frame_decoder::decode(std::span<const std::byte> input, std::span<std::byte> target) {
  bool ended = false;
  const part done = step(input, target, ended);
  finished_ = ended || (finished_ && done.read == 0 && done.made == 0);
  read_ += done.read;
  made_ += done.made;
  return done;
}

void frame_decoder::refuse(bool no_memory, std::string_view reason) const {
  throw error(no_memory ? errc::out_of_memory : errc::format,
              concat(reason, ", after ", read_, " bytes that decode to ", made_));
}

} // namespace saeta::ipc::detail
