#include "saeta/compute/copy_to.hpp"

#include "saeta/base/required.hpp"
#include "saeta/compute/compact.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/peer_copy.hpp"
#include "saeta/transfer/upload.hpp"

#include <span>
#include <utility>
#include <vector>

namespace saeta {
namespace {

constexpr const char* label = "copy";

/// All memory of a table, to be read.
std::vector<use> reads_of(const table& source) {
  storage_reads memory;
  for (const batch& each : source.batches()) {
    for (const column& piece : each.columns) {
      append_reads(piece, memory);
    }
  }
  return std::move(memory.uses());
}

std::vector<batch> uploaded(const table& source, const std::shared_ptr<context>& target) {
  use_token token(source.ctx()->work_stream(), reads_of(source)); // waits for writes, and blocks new ones
  dictionary_cache dictionaries;
  std::vector<batch> made;
  for (const batch& each : source.batches()) {
    made.push_back(
        upload(target, view_in_place(each), dictionaries, {.tag = label, .readable = {}, .file = {}}));
  }
  token.finish();
  return made;
}

std::vector<batch> downloaded(const table& source, const std::shared_ptr<context>& target) {
  dictionary_cache dictionaries;
  std::vector<batch> made;
  for (const host_batch& each : download(source.ctx(), source.batches())) {
    made.push_back(adopt(target, each, dictionaries, {.tag = label}));
  }
  return made;
}

/// Bytes of batches that lie in host memory at once.
constexpr std::uint64_t staged_bytes = std::uint64_t{256} << 20;

bool reaches(const context& target, const context& source) {
  return source.on_host() || target.device_backend()->can_access_peer(*source.device_backend());
}

} // namespace

std::vector<batch> copy_through_host(const table& source, const std::shared_ptr<context>& target) {
  require_argument(target, "target");
  const std::span<const batch> batches = source.batches();
  use_token token(source.ctx()->work_stream(), reads_of(source)); // no write comes between two windows
  std::vector<batch> made;
  for (std::size_t first = 0; first < batches.size();) {
    const std::size_t end = end_of_window(batches, first, staged_bytes);
    dictionary_cache dictionaries; // of the window: it keeps the window's host memory
    for (const host_batch& each : download(source.ctx(), batches.subspan(first, end - first))) {
      made.push_back(upload(target, each, dictionaries, {.tag = label, .readable = {}, .file = {}}));
    }
    first = end;
  }
  token.finish();
  target->copies().count().staged.fetch_add(1, std::memory_order_relaxed);
  return made;
}

table copy_to(const table& source, const std::shared_ptr<context>& target) {
  require_argument(target, "target");
  const std::shared_ptr<context>& from = source.ctx();
  if (from->shares_with(*target)) {
    return table::make(target, source.fields(), {source.batches().begin(), source.batches().end()});
  }
  const table moved = compact(source);
  std::vector<batch> made;
  if (from->on_host() != target->on_host()) {
    made = target->on_host() ? downloaded(moved, target) : uploaded(moved, target);
  } else {
    made = reaches(*target, *from) ? copy_from_peer(moved, target, label) : copy_through_host(moved, target);
  }
  return table::make(target, source.fields(), std::move(made));
}

} // namespace saeta
