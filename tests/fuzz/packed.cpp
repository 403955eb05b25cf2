// Unpacks bytes as a packed table: four bytes with the size of the metadata, the metadata, and the body. The
// body is in host memory, and in memory of a simulated device. Every value of an unpacked table must be
// readable, and packing it again must give the same table.
#include "saeta/ipc/packed.hpp"

#include "fuzz/harness.hpp"
#include "saeta/memory/context.hpp"
#include "support/tables.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace saeta::fuzz {
namespace {

void unpack_one(const std::shared_ptr<context>& ctx, std::span<const std::byte> metadata,
                std::span<const std::byte> body) {
  try {
    const table read = ipc::unpack(ctx, metadata, bytes_in(ctx, body));
    if (has_few_rows(read)) {
      const ipc::packed_table packed = ipc::pack(read);
      const table again = ipc::unpack(ctx, packed.metadata, packed.body);
      const auto same = support::same_contents(again, read);
      require(same, same.message());
    }
  } catch (const error& failure) {
    require_input_or_memory_error(failure);
  }
  settle(*ctx);
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
  // Heap copies of the exact size, so that a sanitizer reports every access past them.
  const std::vector<std::uint8_t> rest(data + sizeof metadata_bytes, data + size);
  const std::size_t first = std::min<std::size_t>(metadata_bytes, rest.size());
  const std::vector<std::uint8_t> metadata(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(first));
  const auto body = std::as_bytes(std::span(rest)).subspan(first);
  unpack_one(host_context(), std::as_bytes(std::span(metadata)), body);
  const simulation& machine = simulated_device();
  unpack_one(machine.ctx, std::as_bytes(std::span(metadata)), body);
  require_clean(machine);
  return 0;
}
