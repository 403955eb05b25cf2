#include "saeta/ipc/data_set.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/base/required.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/read/planned_source.hpp"
#include "saeta/ipc/read/whole_read.hpp"
#include "saeta/ipc/read/window_cutter.hpp"
#include "saeta/memory/context.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace saeta::ipc {
namespace {

void require_number(std::int64_t number, std::int64_t count) {
  if (number < 0 || number >= count) {
    throw error(errc::out_of_range, concat("batch ", number, " is not one of ", count, " batches"));
  }
}

/// @param undivided  column_tree::undivided
void require_rows(std::size_t window, const batch_span& span, std::span<const batch_size> sizes,
                  const std::string& undivided) {
  if (span.batch >= sizes.size()) {
    throw error(errc::out_of_range, concat("window ", window, ": batch ", span.batch, " is not one of ",
                                           sizes.size(), " batches"));
  }
  const batch_size& size = sizes[span.batch];
  const std::int64_t left = size.rows - span.first_row;
  if (span.first_row < 0 || left < 0 || span.rows < -1 || span.rows > left) {
    throw error(errc::out_of_range, concat("window ", window, ": rows [", span.first_row, ", ",
                                           span.first_row + std::max<std::int64_t>(span.rows, 0),
                                           ") of batch ", span.batch, ", which has ", size.rows, " rows"));
  }
  const bool whole = span.first_row == 0 && (span.rows == -1 || span.rows == size.rows);
  if (size.compressed && !whole && !undivided.empty()) {
    throw error(errc::invalid_argument,
                concat("window ", window, ": batch ", span.batch,
                       " is compressed, and can only be read as a whole, because of ", undivided));
  }
}

constexpr std::size_t batches_between_checks = 1024;

batch_size size_of(const detail::batch_layout& batch, const detail::column_tree& tree) {
  batch_size size{.rows = batch.rows, .compressed = batch.codec != detail::body_codec::none};
  detail::node_buffers buffers(batch);
  for (const detail::tree_node& node : tree.nodes) {
    const auto [first, count] = buffers.next(node);
    for (std::size_t i = first; i < first + count; ++i) {
      size.bytes =
          checked_add(size.bytes, static_cast<std::uint64_t>(batch.buffers[i].length), "bytes of a batch");
    }
  }
  return size;
}

/// Lets the sources fetch the metadata of all batches at once.
std::shared_ptr<void> fetch_metadata(const detail::planned_source& from) {
  std::vector<byte_range> ranges;
  if (from.fetches_ahead()) {
    for (const detail::planned_message& batch : from.batches()) {
      ranges.push_back({batch.metadata, batch.metadata_bytes});
    }
  }
  return ranges.empty() ? nullptr : from.fetch_ahead(ranges);
}

/// Rows and bytes of all batches, from the metadata of their messages alone.
std::vector<batch_size> sizes_of(const detail::planned_source& from) {
  std::vector<batch_size> sizes;
  sizes.reserve(from.batches().size());
  detail::source_window window(from.bytes());
  const auto kept = fetch_metadata(from);
  for (const detail::planned_message& batch : from.batches()) {
    if (sizes.size() % batches_between_checks == 0) {
      check_interrupt();
    }
    try {
      const auto read = detail::read_batch_message(window, batch, from.tree());
      if (!read) {
        throw detail::mixed_messages();
      }
      sizes.push_back(size_of(*read, from.tree()));
    } catch (const error& failure) {
      rethrow_input(failure, from.label_of(batch));
    }
  }
  return sizes;
}

} // namespace

data_set::data_set(std::vector<std::unique_ptr<reader>> readers, const data_set_options& options)
    : readers_(std::move(readers)) {
  if (readers_.empty()) {
    throw error(errc::invalid_argument, "a data set needs at least one source");
  }
  for (const auto& reader : readers_) {
    require_argument(reader, "readers");
  }
  describe(options.meant);
  if (options.range || options.batches) {
    select(options);
  } else {
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      parts_.push_back({i, std::nullopt});
    }
  }
}

data_set::~data_set() = default;

/// Finds the schema of all tables.
void data_set::describe(const std::optional<schema>& meant) {
  fields_ = readers_.front()->shared_fields();
  if (meant && *meant != fields()) {
    fields_ = std::make_shared<const schema_index>(*meant);
  }
  for (const auto& reader : readers_) {
    if (reader->shared_fields() == fields_) {
      continue;
    }
    if (meant) {
      require_fits(reader->fields(), reader->name(), fields());
    } else if (schema together =
                   united_schema(fields(), readers_.front()->name(), reader->fields(), reader->name());
               together != fields()) {
      fields_ = std::make_shared<const schema_index>(std::move(together));
    }
  }
}

std::vector<std::unique_ptr<reader>> data_set::take_readers() && { return std::move(readers_); }

/// Finds the requested batches in the sources.
void data_set::select(const data_set_options& options) {
  std::vector<std::int64_t> ends; // of the batches of each source
  for (const auto& reader : readers_) {
    ends.push_back(checked_add(ends.empty() ? 0 : ends.back(), reader->count_batches(), "batches"));
  }
  std::vector<std::int64_t>& numbers = batches_.emplace();
  if (options.range) {
    const auto [first, last] = *options.range;
    if (first < 0 || last < first || last > ends.back()) {
      throw error(errc::out_of_range,
                  concat("batches [", first, ", ", last, ") are not a range of ", ends.back(), " batches"));
    }
    for (std::int64_t number = first; number < last; ++number) {
      numbers.push_back(number);
    }
  } else {
    numbers = *options.batches;
  }
  for (const std::int64_t number : numbers) {
    require_number(number, ends.back());
    const auto end = std::ranges::upper_bound(ends, number);
    const auto source = static_cast<std::size_t>(end - ends.begin());
    const std::int64_t inside = number - (source == 0 ? 0 : ends[source - 1]);
    if (!parts_.empty() && parts_.back().reader == source && parts_.back().range->second == inside) {
      ++parts_.back().range->second;
    } else {
      parts_.push_back({source, std::pair(inside, inside + 1)});
    }
  }
}

container data_set::format() const noexcept { return readers_.front()->format(); }

bool data_set::live() const noexcept {
  return std::ranges::any_of(readers_, [](const auto& reader) { return reader->live(); });
}

const schema& data_set::fields() const noexcept { return fields_->fields(); }

void data_set::choose(std::vector<std::string> columns) {
  readers_.front()->choose(std::move(columns));
  fields_ = readers_.front()->shared_fields();
}

std::int64_t data_set::batch_count() const noexcept {
  if (batches_) {
    return std::ssize(*batches_);
  }
  std::int64_t count = 0;
  for (const auto& reader : readers_) {
    const std::int64_t added = reader->batch_count();
    if (added < 0) {
      return -1;
    }
    count += added;
  }
  return count;
}

/// Whether the only reader does what is requested without help.
bool data_set::is_one_reader() const noexcept {
  return readers_.size() == 1 && !batches_ && fields_ == readers_.front()->shared_fields();
}

const std::shared_ptr<const detail::planned_source>& data_set::plan() {
  if (!asked_) {
    std::vector<detail::read_request> requests;
    for (const auto& reader : readers_) {
      auto request = reader->request();
      if (!request) {
        break;
      }
      request->fields = fields_;
      requests.push_back(std::move(*request));
    }
    plan_ = requests.size() == readers_.size() ? detail::planned_source::find(requests) : nullptr;
    asked_ = true;
  }
  return plan_;
}

/// Returns null if batches are read one by one: some were read already, a plan can't take them, or they are
/// views.
std::shared_ptr<const detail::planned_source> data_set::plan_for(const context& ctx) {
  const bool copied = at_ == 0 && !in_part_ && std::ranges::all_of(readers_, [&](const auto& reader) {
                        return reader->copied_by_plan(ctx);
                      });
  return copied ? plan() : nullptr;
}

scan_list data_set::chosen() const {
  if (!batches_) {
    return plan_->everything();
  }
  scan_list list;
  for (const std::int64_t number : *batches_) {
    list.spans.push_back({.batch = static_cast<std::size_t>(number)});
  }
  return list;
}

reader& data_set::begin_part(const std::shared_ptr<context>& ctx) {
  const part& next = parts_[at_];
  if (!in_part_ && next.range) {
    readers_[next.reader]->restart(*next.range);
  }
  in_part_ = true;
  fetch_ahead(ctx);
  return *readers_[next.reader];
}

/// Lets the sources that are read next fetch their first batches: one alone may be too small to keep the
/// requests of a store busy.
void data_set::fetch_ahead(const std::shared_ptr<context>& ctx) {
  constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;
  std::uint64_t bytes = 0;
  for (std::size_t part = at_; part < parts_.size() && bytes < most_bytes; ++part) {
    if (parts_[part].range) { // it goes back to its first batch when it begins
      return;
    }
    const std::uint64_t fetched = readers_[parts_[part].reader]->fetch_ahead(ctx);
    if (fetched == 0 && part != at_) {
      return;
    }
    bytes += fetched;
  }
}

void data_set::end_part() {
  readers_[parts_[at_].reader]->drop();
  in_part_ = false;
  ++at_;
}

std::optional<batch> data_set::next(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  if (is_one_reader()) {
    return readers_.front()->next(ctx);
  }
  while (at_ < parts_.size()) {
    if (auto rows = begin_part(ctx).next(ctx)) {
      return conform(*std::move(rows), fields());
    }
    end_part();
  }
  return std::nullopt;
}

table data_set::read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook) {
  require_argument(ctx, "ctx");
  if (is_one_reader()) {
    return readers_.front()->read_all(ctx, hook);
  }
  const read_options& options = readers_.front()->options();
  const bool join = options.combine_chunks.value_or(!ctx->on_host());
  if (const auto planned = near_by() ? plan_for(*ctx) : nullptr) {
    if (auto whole = detail::read_whole(ctx, *planned, chosen().spans, join, hook)) {
      at_ = parts_.size();
      return std::move(whole->rows);
    }
  }
  progress sum;
  sum.total_batches = batch_count();
  std::vector<batch> batches;
  while (at_ < parts_.size()) {
    reader& from = begin_part(ctx);
    const progress_hook told = [&](const progress& so_far) {
      hook({sum.batches + so_far.batches, sum.total_batches, sum.rows + so_far.rows, sum.bytes + so_far.bytes,
            sum.total_rows});
    };
    const table read = from.read_all(ctx, hook ? told : hook);
    sum.batches += from.so_far().batches;
    sum.rows = checked_add(sum.rows, from.so_far().rows, "rows of the sources");
    sum.bytes += from.so_far().bytes;
    std::ranges::transform(read.batches(), std::back_inserter(batches),
                           [&](const batch& part) { return conform(part, fields()); });
    end_part();
  }
  table rows = table::make_sharing(ctx, fields_, std::move(batches));
  if (join && options.copy == copy_policy::never && rows.batches().size() > 1) {
    throw error(errc::exchange, concat(rows.batches().size(), " batches can't be joined without a copy"));
  }
  return join ? combine_chunks(rows) : rows;
}

std::unique_ptr<scan> data_set::scan_windows(const std::shared_ptr<context>& ctx,
                                             const scan_options& options) {
  require_argument(ctx, "ctx");
  if (is_one_reader()) {
    return readers_.front()->scan_windows(ctx, options);
  }
  const auto planned = plan_for(*ctx);
  return planned == nullptr ? nullptr : detail::scan_planned(ctx, planned, chosen(), options);
}

std::string data_set::undivided() { return planned() ? plan_->tree().undivided() : std::string(); }

std::vector<std::uint64_t> data_set::divided_bytes(std::span<const std::size_t> numbers) {
  std::vector<std::uint64_t> bytes(numbers.size());
  if (!planned() || !undivided().empty()) {
    return bytes;
  }
  const scan_list all = chosen();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    require_number(static_cast<std::int64_t>(numbers[i]), std::ssize(all.spans));
    auto pieces = detail::batches_of(*plan_, plan_->messages_of(std::span(&all.spans[numbers[i]], 1)));
    try {
      if (detail::read_pieces(pieces, plan_->bytes(), true, detail::run_here) &&
          pieces.kept_bytes.front() > detail::least_divided(pieces.packed.front().size())) {
        bytes[i] = pieces.kept_bytes.front();
      }
    } catch (const error&) {
      bytes[i] = 0; // reading the batch reports it
    }
  }
  return bytes;
}

bool data_set::planned() { return plan() != nullptr; }

bool data_set::near_by() const noexcept {
  return std::ranges::all_of(readers_, [](const auto& reader) { return reader->near_by(); });
}

const std::vector<batch_size>& data_set::sizes() {
  if (!planned()) {
    throw error(errc::unsupported,
                concat(readers_.front()->name(), readers_.size() == 1 ? "" : " and other sources",
                       ": parts of batches can be read only of files and of bytes in memory, with metadata "
                       "of version 5, without symbols, and with all columns at the same places"));
  }
  if (sizes_.empty()) {
    const std::vector<batch_size> all = sizes_of(*plan_);
    metadata_ = nullptr;
    for (const batch_span& span : chosen().spans) {
      sizes_.push_back(all[span.batch]);
    }
  }
  return sizes_;
}

std::vector<batch_size> data_set::guess_sizes() {
  if (near_by() || batches_ || !sizes_.empty() || !planned() || plan_->batches().empty() ||
      plan_->messages_to_fetch({}).ranges != nullptr) {
    return {};
  }
  metadata_ = fetch_metadata(*plan_);
  const detail::planned_message& first =
      plan_->batches().front(); // its metadata came when the file was opened
  batch_size known;
  try {
    detail::source_window window(plan_->bytes());
    const auto read = detail::read_batch_message(window, first, plan_->tree());
    if (!read || first.body_bytes == 0) {
      return {};
    }
    known = size_of(*read, plan_->tree());
  } catch (const error&) {
    return {}; // `sizes` reports it
  }
  std::vector<batch_size> guessed;
  for (const detail::planned_message& batch : plan_->batches()) {
    const double share = static_cast<double>(batch.body_bytes) / static_cast<double>(first.body_bytes);
    guessed.push_back({.rows = std::llround(static_cast<double>(known.rows) * share),
                       .bytes = static_cast<std::uint64_t>(static_cast<double>(known.bytes) * share),
                       .compressed = known.compressed});
  }
  return guessed;
}

std::shared_ptr<void> data_set::fetch_batches(const context& ctx, std::span<const std::size_t> numbers) {
  struct fetched {
    std::shared_ptr<const detail::planned_source> from;
    std::vector<batch_span> spans;
    std::optional<detail::fetch_window> window;
  };
  if (!planned()) {
    return nullptr;
  }
  const auto made = std::make_shared<fetched>(fetched{plan_, {}, std::nullopt});
  for (const std::size_t number : numbers) {
    require_number(static_cast<std::int64_t>(number), std::ssize(plan_->batches()));
    made->spans.push_back({.batch = number});
  }
  made->window.emplace(plan_->messages_to_fetch(made->spans), ctx.memory_budget()->statistics().limit);
  made->window->go_on(0);
  return made;
}

std::unique_ptr<scan> data_set::scan_spans(const std::shared_ptr<context>& ctx,
                                           std::span<const std::vector<batch_span>> windows,
                                           std::size_t windows_ahead, std::vector<window_order> orders) {
  require_argument(ctx, "ctx");
  if (!orders.empty() && orders.size() != windows.size()) {
    throw error(errc::invalid_argument, concat(orders.size(), " orders for ", windows.size(), " windows"));
  }
  const std::vector<batch_size>& known = sizes();
  const scan_list all = chosen();
  const std::string undivided = plan_->tree().undivided();
  scan_list list;
  for (std::size_t window = 0; window < windows.size(); ++window) {
    if (windows[window].empty()) {
      throw error(errc::invalid_argument, concat("window ", window, " has no batches"));
    }
    for (const batch_span& span : windows[window]) {
      require_rows(window, span, known, undivided);
      const bool whole = span.first_row == 0 && span.rows == known[span.batch].rows;
      list.spans.push_back({all.spans[span.batch].batch, span.first_row, whole ? -1 : span.rows});
    }
    list.window_ends.push_back(list.spans.size());
  }
  list.orders = std::move(orders);
  auto result = detail::scan_planned(ctx, plan_, std::move(list), {.windows_ahead = windows_ahead});
  if (result == nullptr) {
    throw error(errc::unsupported,
                concat(readers_.front()->name(), ": a dictionary is larger than its offsets can count"));
  }
  return result;
}

} // namespace saeta::ipc
