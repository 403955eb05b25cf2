// Bytes as a packed table and as the stream of the same messages: what `unpack` takes, the reader takes, as
// views of a host, and the rows are the same. What one refuses, the other does. Copies have only the rows
// that the rows of their parents refer to, so that they may take more. The input is as that of `packed`, and
// begins with its files.
#include "support/packed_stream.hpp"

#include "fuzz/harness.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/memory/context.hpp"
#include "support/tables.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace saeta::fuzz {
namespace {

/// A table, or why there is none.
struct attempt {
  std::optional<table> made;
  std::optional<error> refused;
};

template <class Make>
attempt try_to(Make make) {
  try {
    return {make(), std::nullopt};
  } catch (const error& failure) {
    return {std::nullopt, failure};
  }
}

std::string text_of(const attempt& of) {
  return of.refused ? concat(name_of(of.refused->code()), ": ", of.refused->message()) : "a table";
}

bool is_unsupported(const attempt& of) { return of.refused && of.refused->code() == errc::unsupported; }

void require_same(const table& seen, const table& expected) {
  // Bools of one byte are marked in the packed form, and plain extensions in a stream.
  if (seen.fields() == expected.fields() && has_few_rows(seen)) {
    const auto same = support::same_contents(seen, expected);
    require(same, same.message());
  }
}

void compare(std::span<const std::byte> metadata, std::span<const std::byte> body,
             const std::string& stream) {
  const std::shared_ptr<context>& ctx = host_context();
  const attempt unpacked = try_to([&] { return ipc::unpack(ctx, metadata, bytes_in(ctx, body)); });
  const auto read = [&](copy_policy copy) {
    return try_to([&] {
      ipc::read_options options;
      options.copy = copy;
      options.rechunk = false;
      return ipc::reader::open(std::as_bytes(std::span(stream)), nullptr, options)->read_all(ctx);
    });
  };
  const attempt views = read(copy_policy::when_needed);
  const attempt copies = read(copy_policy::always);
  for (const attempt* each : {&unpacked, &views}) {
    require(each->made || each->refused->code() == errc::format || is_unsupported(*each), text_of(*each));
  }
  if (copies.refused) {
    require_input_or_memory_error(*copies.refused);
  }
  if (is_unsupported(unpacked) || is_unsupported(views)) {
    return;
  }
  require(unpacked.made.has_value() == views.made.has_value(),
          concat("unpack: ", text_of(unpacked), "; views: ", text_of(views)));
  if (unpacked.made) {
    require_same(*unpacked.made, *views.made);
    require(copies.made.has_value() || copies.refused->code() != errc::format,
            concat("unpack takes what a copy refuses: ", text_of(copies)));
    if (copies.made) {
      require_same(*unpacked.made, *copies.made);
    }
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
