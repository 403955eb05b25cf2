// Reads bytes as a packed table and as an IPC stream of the same messages. If `unpack` accepts them, every
// read path of the stream returns the same rows; if it refuses them, the read paths that check every row do,
// too (fuzz/read_paths.hpp). Inputs have the form of those of the fuzzer `packed`, and its corpus is used.
#include "support/packed_stream.hpp"

#include "fuzz/harness.hpp"
#include "fuzz/read_paths.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/memory/context.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

namespace saeta::fuzz {
namespace {

bool is_unsupported(const attempt& of) { return of.refused && of.refused->code() == errc::unsupported; }

void compare(std::span<const std::byte> metadata, std::span<const std::byte> body,
             const std::string& stream) {
  const std::shared_ptr<context>& ctx = host_context();
  const attempt unpacked = try_to([&] { return ipc::unpack(ctx, metadata, bytes_in(ctx, body)); });
  const attempt read = require_one_meaning(std::as_bytes(std::span(stream)));
  require(unpacked.made || unpacked.refused->code() == errc::format || is_unsupported(unpacked),
          text_of(unpacked));
  if (is_unsupported(unpacked) || is_unsupported(read)) {
    return;
  }
  require(unpacked.made.has_value() == read.made.has_value(),
          concat("unpack: ", text_of(unpacked), "; views: ", text_of(read)));
  // The schemas may differ in bool8 columns: the packed form marks them, and in a stream they are extensions.
  if (unpacked.made && unpacked.made->fields() == read.made->fields()) {
    require_same_rows("unpack", *unpacked.made, *read.made);
  }
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  std::uint32_t metadata_bytes = 0;
  if (size < sizeof metadata_bytes) {
    return 0;
  }
  std::memcpy(&metadata_bytes, data, sizeof metadata_bytes);
  const auto rest = std::as_bytes(std::span(data, size)).subspan(sizeof metadata_bytes);
  const auto metadata = rest.first(std::min<std::size_t>(metadata_bytes, rest.size()));
  const auto body = rest.subspan(metadata.size());
  if (const auto stream = saeta::support::stream_of(metadata, body)) {
    compare(metadata, body, *stream);
    settle(*host_context());
  }
  return 0;
}
