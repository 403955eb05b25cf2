#include "saeta/compute/take_level.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>

namespace saeta {
namespace {

/// Work on fewer numbers than this is done before other threads have begun.
constexpr std::int64_t least_shared = std::int64_t{1} << 20;
/// A string takes as long as so many numbers.
constexpr std::int64_t numbers_of_string = 8;
constexpr std::int64_t part_rows = 1 << 16;
/// The offsets that so many rows read are still in the cache when their bytes are copied.
constexpr std::int64_t string_rows = 1 << 13;

std::int64_t numbers_of(const take_step& step) {
  return step.count * (step.kind == take_kind::offsets ? numbers_of_string : 1);
}

/// Rows of a step that one thread of the host does at a time, and the bytes of the same rows.
struct host_part {
  take_step rows;
  std::optional<take_step> bytes;
  std::size_t step = 0;   ///< the step that it is a part of
  std::int64_t first = 0; ///< its first row there
};

/// The sum of everything before a row. @param row  the first row of a tile, or the number of rows
std::int64_t sum_before(const take_step& step, std::int64_t row, std::int64_t total) {
  return row == step.count ? total : step.sums[row / take_tile_rows];
}

void advance(const void*& address, std::int64_t bytes) {
  address = static_cast<const std::byte*>(address) + bytes;
}
/// Steps that are only counted have no target.
void advance(void*& address, std::int64_t bytes) {
  if (address != nullptr) {
    address = static_cast<std::byte*>(address) + bytes;
  }
}

/// Returns `count` rows of a step from `first` on, which is a multiple of the rows of a tile.
take_step part_of(const take_step& step, std::int64_t first, std::int64_t count) {
  take_step part = step;
  part.columns = 1;
  part.count = count;
  if (part.rows != nullptr) {
    part.rows += first;
  }
  if (part.sums != nullptr) {
    part.sums += first / take_tile_rows;
  }
  switch (step.kind) {
  case take_kind::values:
    advance(part.target, first * step.width * step.units);
    break;
  case take_kind::bits:
  case take_kind::validity:
    advance(part.target, first / 8);
    break;
  case take_kind::mask:
    part.from.first += first;
    part.limit += first;
    break;
  case take_kind::offsets:
    advance(part.target, first * step.width);
    part.units = first + count == step.count ? 1 : 0;
    break;
  default:
    break;
  }
  return part;
}

take_step bytes_of_part(const take_step& bytes, const take_step& offsets, std::int64_t first,
                        std::int64_t count) {
  take_step part = bytes;
  part.rows += first;
  part.lists = count;
  part.count = sum_before(offsets, first + count, bytes.count);
  advance(part.starts, first * bytes.width);
  return part;
}

std::int64_t most_rows_of_part(take_kind kind) {
  switch (kind) {
  case take_kind::offsets:
    return string_rows;
  case take_kind::values:
  case take_kind::bits:
  case take_kind::validity:
  case take_kind::mask:
    return part_rows;
  default:
    return std::numeric_limits<std::int64_t>::max();
  }
}

/// Cuts long steps into parts, so that threads of the host can share one column.
/// @param bytes  the steps of kind `bytes` that read the offsets of `steps`
std::vector<host_part> parts_of(std::span<const take_step> steps, std::span<const take_step> bytes) {
  std::vector<host_part> parts;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const take_step& step = steps[i];
    const auto own = std::ranges::find(bytes, step.target, &take_step::starts);
    const std::int64_t most = std::min(most_rows_of_part(step.kind), step.count);
    for (std::int64_t first = 0; first < step.count; first += most) {
      const std::int64_t count = std::min(most, step.count - first);
      host_part& part = parts.emplace_back();
      part = {.rows = part_of(step, first, count), .bytes = std::nullopt, .step = i, .first = first};
      if (own != bytes.end()) {
        part.bytes = bytes_of_part(*own, step, first, count);
      }
    }
  }
  return parts;
}

} // namespace

void take_runner::set_pieces(take_step& step, std::span<const take_source> pieces) {
  step.pieces = std::ssize(pieces);
  step.from = pieces.front();
  if (pieces.size() != 1) {
    step.first_source = std::ssize(sources_);
    sources_.insert(sources_.end(), pieces.begin(), pieces.end());
  }
}

take_step take_runner::rows_of(std::span<const std::int64_t> piece_rows) {
  take_step step;
  if (piece_rows.size() <= 1) {
    return step;
  }
  step.pieces = std::ssize(piece_rows);
  step.first_source = std::ssize(sources_);
  std::int64_t first = 0;
  for (const std::int64_t rows : piece_rows) {
    sources_.push_back({.first = first, .count = rows});
    first += rows;
  }
  return step;
}

/// The kernels of the host run on the thread that calls them.
void take_runner::count_on_host(std::span<const take_step> steps, const take_source* sources,
                                std::int64_t* sums, taken_count* counts) const {
  const std::vector<host_part> parts = parts_of(steps, {});
  std::vector<taken_count> counted(parts.size());
  const auto sums_of = [&](const host_part& part) {
    return sums + steps[part.step].first_tile + part.first / take_tile_rows;
  };
  thread_pool threads;
  threads.run(parts.size(), [&](std::size_t, std::size_t i) {
    ctx_->kernels().count_taken(ctx_->work_stream().native_handle(),
                                {std::span(&parts[i].rows, 1), &parts[i].rows, sources_, sources},
                                sums_of(parts[i]), &counted[i]);
  });
  std::fill_n(counts, steps.size(), taken_count());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const host_part& part = parts[i];
    taken_count& all = counts[part.step];
    std::int64_t* const own = sums_of(part);
    std::for_each_n(own, count_tiles(part.rows), [&](std::int64_t& sum) { sum += all.total; });
    all.total += counted[i].total;
    if (all.bad_row == no_row && counted[i].bad_row != no_row) {
      all.bad_row = part.first + counted[i].bad_row;
    }
  }
}

std::vector<taken_count> take_runner::count(std::span<take_step> steps) {
  constexpr std::size_t numbers = sizeof(taken_count) / sizeof(std::int64_t);
  if (steps.empty()) {
    return {};
  }
  const stream_ref work = ctx_->work_stream();
  const auto tiles = static_cast<std::size_t>(number_tiles(steps));
  const buffer sums = buffer::allocate(ctx_, tiles * sizeof(std::int64_t), work, "take");
  const buffer results = buffer::allocate(ctx_, steps.size() * sizeof(taken_count), work, "take");
  const device_copy<take_step> uploaded(ctx_, steps);
  const device_copy<take_source> sources(ctx_, sources_);
  use_token token(work, {reads(uploaded.memory()), reads(sources.memory()), writes(sums), writes(results)});
  auto* const sum = token.span<std::int64_t>(sums).data();
  auto* const totals = token.span<taken_count>(results).data();
  if (is_shared(steps)) {
    count_on_host(steps, sources.data(token), sum, totals);
  } else {
    ctx_->kernels().count_taken(work.native_handle(),
                                {steps, uploaded.data(token), sources_, sources.data(token)}, sum, totals);
  }
  std::vector<std::int64_t> read(steps.size() * numbers);
  ctx_->copies().read_scalars(read, reinterpret_cast<const std::int64_t*>(totals), work);
  token.finish();
  sums_.push_back(sums);
  std::vector<taken_count> counts;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].sums = sum + steps[i].first_tile;
    counts.push_back({read[numbers * i], read[numbers * i + 1]});
  }
  return counts;
}

bool take_runner::is_shared(std::span<const take_step> steps) const {
  const std::int64_t numbers =
      std::transform_reduce(steps.begin(), steps.end(), std::int64_t{0}, std::plus<>(), numbers_of);
  return ctx_->on_host() && numbers >= least_shared;
}

void take_runner::run_on_host(std::span<const take_step> steps, std::span<const take_step> late,
                              const take_source* sources) const {
  const auto run = [&](const take_step& step) {
    ctx_->kernels().take(ctx_->work_stream().native_handle(),
                         {std::span(&step, 1), nullptr, sources_, sources});
  };
  std::vector<take_step> bytes;
  std::vector<take_step> others;
  for (const take_step& step : late) {
    (step.kind == take_kind::bytes ? bytes : others).push_back(step);
  }
  const std::vector<host_part> parts = parts_of(steps, bytes);
  thread_pool threads;
  threads.run(parts.size(), [&](std::size_t, std::size_t i) {
    run(parts[i].rows);
    if (parts[i].bytes) {
      run(*parts[i].bytes);
    }
  });
  threads.run(others.size(), [&](std::size_t, std::size_t i) { run(others[i]); });
}

void take_runner::queue(std::span<take_step> steps, const take_source* sources) const {
  if (steps.empty()) {
    return;
  }
  const stream_ref work = ctx_->work_stream();
  number_tiles(steps);
  const bool passed = steps.size() <= most_passed_steps;
  const device_copy<take_step> uploaded(ctx_, passed ? std::span<take_step>() : steps);
  use_token token(work, {reads(uploaded.memory())});
  ctx_->kernels().take(work.native_handle(), {steps, uploaded.data(token), sources_, sources});
  token.finish();
}

void take_runner::run(std::span<take_step> steps, std::span<take_step> late) {
  if (steps.empty()) {
    return;
  }
  const device_copy<take_source> sources(ctx_, sources_);
  std::vector<use> uses{reads(sources.memory())};
  std::ranges::transform(sums_, std::back_inserter(uses), reads);
  use_token token(ctx_->work_stream(), uses);
  if (is_shared(steps)) {
    run_on_host(steps, late, sources.data(token));
  } else {
    queue(steps, sources.data(token));
    queue(late, sources.data(token));
  }
  token.finish();
}

} // namespace saeta
