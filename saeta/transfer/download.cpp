#include "saeta/transfer/download.hpp"

#include "saeta/base/required.hpp"
#include "saeta/transfer/downloader.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace saeta {
namespace {

using range = std::span<const std::byte>;

range device_range(const buffer& of) { return {reinterpret_cast<const std::byte*>(of.address()), of.size()}; }

host_array host_view(const column& from) {
  host_array made;
  made.type = from.type();
  made.length = from.length();
  made.offset = from.offset();
  made.null_count = from.known_null_count();
  for (const buffer& b : from.buffers()) {
    made.buffers.push_back(b.present() ? device_range(b) : range{});
  }
  for (const column& child : from.children()) {
    made.children.push_back(host_view(child));
  }
  if (from.dictionary() != nullptr) {
    made.dictionary = std::make_shared<const host_array>(host_view(*from.dictionary()));
  }
  return made;
}

bool host_reads(const column& from) {
  const auto readable = [](const buffer& each) { return host_accessible(each.kind()); };
  return std::ranges::all_of(from.buffers(), readable) && std::ranges::all_of(from.children(), host_reads) &&
         (from.dictionary() == nullptr || host_reads(*from.dictionary()));
}

} // namespace

std::size_t end_of_window(std::span<const batch> batches, std::size_t first, std::uint64_t bytes) {
  if (batches.size() - first <= 1) {
    return batches.size();
  }
  std::uint64_t taken = 0;
  for (std::size_t end = first; end < batches.size(); ++end) {
    for (const column& each : batches[end].columns) {
      taken += each.byte_size();
    }
    if (taken > bytes && end != first) {
      return end;
    }
  }
  return batches.size();
}

bool host_accessible(const batch& source) { return std::ranges::all_of(source.columns, host_reads); }

host_batch view_in_place(const batch& source) {
  host_batch made;
  made.rows = source.rows;
  for (const column& c : source.columns) {
    made.arrays.push_back(host_view(c));
  }
  made.keepalive = std::make_shared<std::vector<column>>(source.columns);
  return made;
}

std::vector<host_batch> download(const std::shared_ptr<context>& ctx, std::span<const batch> sources) {
  require_argument(ctx, "ctx");
  std::vector<host_batch> made;
  made.reserve(sources.size());
  if (ctx->on_host()) {
    for (const batch& source : sources) {
      made.push_back(view_in_place(source));
    }
    return made;
  }
  std::vector<column> columns;
  for (const batch& source : sources) {
    columns.insert(columns.end(), source.columns.begin(), source.columns.end());
  }
  downloader down(ctx, columns);
  down.fetch();
  std::size_t number = 0;
  for (const batch& source : sources) {
    host_batch& there = made.emplace_back();
    there.rows = source.rows;
    for (std::size_t i = 0; i < source.columns.size(); ++i) {
      there.arrays.push_back(down.array(number++));
    }
    there.keepalive = down.arena();
  }
  return made;
}

host_batch download(const std::shared_ptr<context>& ctx, const batch& source) {
  require_argument(ctx, "ctx");
  return std::move(download(ctx, std::span(&source, 1)).front());
}

} // namespace saeta
