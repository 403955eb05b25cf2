#include "saeta/ipc/read/planned_source.hpp"

#include "saeta/base/text.hpp"

#include <limits>

namespace saeta::ipc::detail {
namespace {

/// The number of batches in a stream is known only when it has been walked.
void require_range(const planned_messages& found, const read_request& request) {
  const auto [first, last] = request.batches;
  if (!found.file && last != std::numeric_limits<std::int64_t>::max() && found.passed < last) {
    throw error(errc::out_of_range, concat(request.from->name(), ": batches [", first, ", ", last,
                                           ") of a stream that has ", found.passed, " batches"));
  }
}

/// The columns of the tree, each once and in the order of the source.
std::vector<int> columns_of(const read_request& request) {
  const projection& projected = *request.projected;
  // Without columns libarrow decodes one.
  return projected.decoded.empty() || projected.requested.empty() ? projected.requested : projected.decoded;
}

} // namespace

planned_source::planned_source(const read_request& request)
    : from_(request.from), bytes_{.bytes = from_->size(),
                                  .read =
                                      [from = from_.get()](std::uint64_t position,
                                                           std::span<std::byte> target) {
                                        from->read_at(position, target);
                                      }},
      described_(request.described), fields_(request.fields), check_(request.check), texts_(request.texts) {}

std::shared_ptr<const planned_source> planned_source::find(const read_request& request) {
  std::shared_ptr<planned_source> made(new planned_source(request));
  return made->take_messages(request) ? made : nullptr;
}

bool planned_source::take_messages(const read_request& request) {
  source_window window(bytes_);
  auto found = find_messages(window, request.format, request.front, name(), request.batches);
  if (!found) {
    return false;
  }
  require_range(*found, request);
  auto tree = make_tree(described_->fields(), columns_of(request),
                        schema_table(request.format, request.front), trees_);
  if (!tree) {
    return false;
  }
  tree_ = std::move(*tree);
  order_ = request.projected->order;
  is_file_ = found->file;
  batches_ = std::move(found->batches);
  for (const planned_message& each : batches_) { // claims may overflow; they only choose the size of chunks
    body_bytes_ += each.body_bytes;
  }
  dictionary_batches_.resize(trees_.trees.size());
  for (const planned_dictionary& each : found->dictionaries) {
    if (const auto number = trees_.numbers.find(each.id); number != trees_.numbers.end()) {
      dictionary_batches_[number->second].messages.push_back(each.message);
      dictionary_batches_[number->second].deltas.push_back(each.delta);
    }
  }
  return true;
}

std::string planned_source::label_of(const planned_message& batch) const {
  const std::string whole = concat(name(), ": batch ", batch.number);
  return batch.first_row == 0 ? whole : concat(whole, " from row ", batch.first_row, " on");
}

} // namespace saeta::ipc::detail
