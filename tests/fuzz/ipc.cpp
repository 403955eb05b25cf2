// Bytes as an Arrow IPC file or stream. libarrow is not instrumented: what it reads past its buffers shows only where it
// crashes, what we read past ours always.
#include "fuzz/harness.hpp"
#include "saeta/column/table.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/memory/context.hpp"
#include "support/tables.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace saeta::fuzz {
namespace {

constexpr std::uint64_t decode_limit = std::uint64_t{16} << 20;
constexpr std::int64_t many_rows = 100'000; // rows of a null column cost nothing, whatever their number

void read_bytes(const std::shared_ptr<context>& home, std::span<const std::byte> bytes, copy_policy copy) {
  try {
    const auto reading = ipc::reader::open(bytes, nullptr, {.copy = copy, .decode_limit = decode_limit});
    const table read = reading->read_all(home);
    for (std::size_t i = 0; i < read.column_count(); ++i) {
      for (const column& piece : read.pieces(i)) {
        if (piece.length() < many_rows && home->on_host()) {
          require(support::cells(piece).size() == static_cast<std::size_t>(piece.length()),
                  "a column has other rows than its length");
        }
      }
    }
  } catch (const error& failure) {
    require_input_error(failure);
  }
  settle(*home);
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  // Of their exact size, on the heap: a sanitizer sees what goes beyond.
  const std::vector<std::uint8_t> exact(data, data + size);
  const auto bytes = std::as_bytes(std::span(exact));
  read_bytes(host_context(), bytes, saeta::copy_policy::when_needed);
  return 0;
}
