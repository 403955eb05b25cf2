#include "saeta/transfer/copy_to.hpp"

#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/upload.hpp"

#include <unordered_set>
#include <utility>
#include <vector>

namespace saeta {
namespace {

constexpr const char* label = "copy";

void append_uses(const column& of, std::unordered_set<const storage*>& known, std::vector<use>& uses) {
  for (const buffer& each : of.buffers()) {
    if (each.present() && known.insert(each.owner().get()).second) {
      uses.push_back(reads(buffer(each.owner())));
    }
  }
  for (const column& child : of.children()) {
    append_uses(child, known, uses);
  }
  if (of.dictionary() != nullptr) {
    append_uses(*of.dictionary(), known, uses);
  }
}

std::vector<batch> uploaded(const table& source, const std::shared_ptr<context>& target) {
  std::vector<use> uses;
  std::unordered_set<const storage*> known;
  for (const batch& each : source.batches()) {
    for (const column& piece : each.columns) {
      append_uses(piece, known, uses);
    }
  }
  use_token token(source.ctx()->work_stream(), uses); // waits for pending writes, and keeps others away
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

} // namespace

table copy_to(const table& source, const std::shared_ptr<context>& target) {
  const std::shared_ptr<context>& from = source.ctx();
  if (from->shares_with(*target)) {
    return table::make(target, source.fields(), {source.batches().begin(), source.batches().end()});
  }
  if (from->on_host() == target->on_host()) {
    throw error(errc::unsupported,
                concat("copying a table from ", to_string(from->device()), " to ",
                       to_string(target->device()),
                       ": only between the host and a device, so copy it to the host first"));
  }
  return table::make(target, source.fields(),
                     target->on_host() ? downloaded(source, target) : uploaded(source, target));
}

} // namespace saeta
