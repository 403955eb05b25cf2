#include "saeta/compute/take_runner.hpp"

#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <iterator>

namespace saeta {

void take_runner::set_pieces(take_step& step, std::span<const take_source> pieces) {
  step.pieces = std::ssize(pieces);
  step.from = pieces.front();
  if (pieces.size() != 1) {
    step.first_source = std::ssize(sources_);
    sources_.insert(sources_.end(), pieces.begin(), pieces.end());
  }
}

take_step take_runner::rows_of(std::span<const std::int64_t> piece_rows) {
  take_step made;
  if (piece_rows.size() <= 1) {
    return made;
  }
  made.pieces = std::ssize(piece_rows);
  made.first_source = std::ssize(sources_);
  std::int64_t first = 0;
  for (const std::int64_t rows : piece_rows) {
    sources_.push_back({.first = first, .count = rows});
    first += rows;
  }
  return made;
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
  auto* const sum = token.mutable_data<std::int64_t>(sums);
  auto* const found = token.mutable_data<taken_count>(results);
  ctx_->kernels().count_taken(work.native_handle(),
                              {steps, uploaded.data(token), sources_, sources.data(token)}, sum, found);
  std::vector<std::int64_t> read(steps.size() * numbers);
  ctx_->copies().read_scalars(read, reinterpret_cast<const std::int64_t*>(found), work);
  token.finish();
  sums_.push_back(sums);
  std::vector<taken_count> made;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].sums = sum + steps[i].first_tile;
    made.push_back({read[numbers * i], read[numbers * i + 1]});
  }
  return made;
}

void take_runner::run(std::span<take_step> steps) {
  if (steps.empty()) {
    return;
  }
  const stream_ref work = ctx_->work_stream();
  number_tiles(steps);
  const bool passed = steps.size() <= most_passed_steps;
  const device_copy<take_step> uploaded(ctx_, passed ? std::span<take_step>() : steps);
  const device_copy<take_source> sources(ctx_, sources_);
  std::vector<use> uses{reads(uploaded.memory()), reads(sources.memory())};
  std::ranges::transform(sums_, std::back_inserter(uses), reads);
  use_token token(work, uses);
  ctx_->kernels().take(work.native_handle(), {steps, uploaded.data(token), sources_, sources.data(token)});
  token.finish();
}

} // namespace saeta
