// Bytes as an Arrow IPC file or stream: as views on the host, and by a plan over the whole read, on the host
// and on a simulated device. What is read as views is read as copies, and the rows are the same. Copies have
// only the rows that the rows of their parents refer to, so that they may take more. The schema that is read
// is the one that libarrow describes, unless libarrow refuses the metadata.
#include "fuzz/harness.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/format/schema_metadata.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/memory/context.hpp"
#include "support/libarrow_schema.hpp"
#include "support/tables.hpp"

#include <span>
#include <string>
#include <vector>

namespace saeta::fuzz {
namespace {

/// What is written is read as the same.
void require_round_trip(const table& read, ipc::container format) {
  const std::string bytes = ipc::write_bytes(read, {.format = format});
  const auto again = ipc::reader::open(std::as_bytes(std::span(bytes)), nullptr)->read_all(read.ctx());
  const auto same = support::same_contents(again, read);
  require(same, same.message());
}

table read_as(const std::shared_ptr<context>& ctx, std::span<const std::byte> bytes, copy_policy copy) {
  ipc::read_options options;
  options.copy = copy;
  options.rechunk = false;
  return ipc::reader::open(bytes, nullptr, options)->read_all(ctx);
}

/// What is read as views is read as copies.
void require_same_as_copies(const table& views, std::span<const std::byte> bytes) {
  try {
    const table copies = read_as(views.ctx(), bytes, copy_policy::always);
    if (has_few_rows(views)) {
      const auto same = support::same_contents(copies, views);
      require(same, same.message());
    }
  } catch (const error& failure) {
    require(failure.code() != errc::format, failure.message());
    require_input_or_memory_error(failure);
  }
}

void read_bytes(const std::shared_ptr<context>& ctx, std::span<const std::byte> bytes) {
  try {
    const table read = read_as(ctx, bytes, copy_policy::when_needed);
    require_same_as_copies(read, bytes);
    if (has_few_rows(read)) {
      require_round_trip(read, ipc::reader::open(bytes, nullptr)->format());
    }
  } catch (const error& failure) {
    if (failure.code() != errc::out_of_range) { // the writer's word for numbers that contradict each other
      require_input_error(failure);
    }
  }
  settle(*ctx);
}

void compare_schemas(std::span<const std::byte> bytes) {
  try {
    ipc::detail::message_source messages(ipc::detail::source_of(bytes, nullptr), std::nullopt);
    const auto read = ipc::detail::read_schema(messages.format(), messages.front());
    const auto described = support::schema_of_libarrow(bytes);
    require(!described || !read.obstacles.empty() || read.fields == *described, "one schema");
  } catch (const error& failure) {
    require_input_error(failure);
  }
}

/// All batches at once, joined and not, as the device and the copies of a host have them.
void read_at_once(const std::shared_ptr<context>& ctx, std::span<const std::byte> bytes) {
  for (const bool joined : {true, false}) {
    try {
      ipc::read_options options;
      options.copy = copy_policy::always;
      options.rechunk = joined;
      const table read = ipc::reader::open(bytes, nullptr, options)->read_all(ctx);
      if (has_few_rows(read)) {
        for (std::size_t i = 0; i < read.column_count(); ++i) {
          support::cells(read, i);
        }
      }
    } catch (const error& failure) {
      require_input_or_memory_error(failure);
    }
    settle(*ctx);
  }
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  // A heap copy of the exact size: a sanitizer sees every access past it.
  const std::vector<std::uint8_t> exact(data, data + size);
  const auto bytes = std::as_bytes(std::span(exact));
  compare_schemas(bytes);
  read_bytes(host_context(), bytes);
  read_at_once(host_context(), bytes);
  const simulation& machine = simulated_device();
  read_at_once(machine.ctx, bytes);
  require_clean(machine);
  return 0;
}
