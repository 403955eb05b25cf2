// Reads bytes as an Arrow IPC file or stream: all read paths must refuse them, or return the same rows
// (fuzz/read_paths.hpp). A table that was read must survive a round trip. The schema must be that of
// libarrow, unless libarrow refuses the metadata.
#include "fuzz/harness.hpp"
#include "fuzz/read_paths.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/memory/context.hpp"
#include "support/libarrow_schema.hpp"
#include "support/tables.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace saeta::fuzz {
namespace {

/// Writes a table, reads it again and compares.
void require_round_trip(const table& read, ipc::container format) {
  const std::string bytes = ipc::write_bytes(read, {.format = format});
  const auto again = ipc::reader::open(std::as_bytes(std::span(bytes)), nullptr)->read_all(read.ctx());
  const auto same = support::same_contents(again, read);
  require(same, same.message());
}

void write_again(const table& read, ipc::container format) {
  try {
    if (has_few_rows(read)) {
      require_round_trip(read, format);
    }
  } catch (const error& failure) {
    if (failure.code() != errc::out_of_range) { // an index or offset of the table is invalid
      require_input_error(failure);
    }
  }
}

/// Whether metadata still has the key of an extension type after the type has taken it: it was there twice. libarrow
/// keeps the second one in its own schema, but its export has each key once.
bool repeats_extension(std::span<const field> fields) {
  return std::ranges::any_of(fields, [](const field& each) {
    return std::ranges::any_of(each.metadata,
                               [](const auto& entry) {
                                 return entry.first == extension_name_key ||
                                        entry.first == extension_metadata_key;
                               }) ||
           repeats_extension(each.type.children()) ||
           (each.type.value_type() != nullptr && repeats_extension(each.type.value_type()->children()));
  });
}

void compare_schemas(std::span<const std::byte> bytes) {
  try {
    ipc::detail::message_source messages(ipc::detail::source_of(bytes, nullptr), std::nullopt);
    const auto read = ipc::detail::read_schema(messages.format(), messages.front());
    const auto described = support::schema_of_libarrow(bytes);
    require(!described || !read.obstacles.empty() || repeats_extension(read.fields.fields) ||
                read.fields == *described,
            "one schema");
  } catch (const error& failure) {
    require_input_error(failure);
  }
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  // A heap copy of the exact size, so that a sanitizer reports every access past it.
  const std::vector<std::uint8_t> exact(data, data + size);
  const auto bytes = std::as_bytes(std::span(exact));
  compare_schemas(bytes);
  if (const attempt read = require_one_meaning(bytes); read.made) {
    write_again(*read.made, saeta::ipc::reader::open(bytes, nullptr)->format());
  }
  settle(*host_context());
  return 0;
}
