// Steps that allocate, use and free buffers on streams of the contexts.
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/peer_copy.hpp"
#include "schedules/random_program.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

namespace saeta::schedules {

stream_ref random_program::any_stream(const site& of) {
  const std::size_t i = draw_.below(of.leases.size() + 1);
  return i == of.leases.size() ? of.ctx->work_stream() : of.leases[i].ref();
}

known& random_program::any_buffer() {
  known& found = buffers_[draw_.below(buffers_.size())];
  excuse(found);
  return found;
}

void random_program::excuse(const known& used) {
  excused_ = excused_ || unfenced_.contains(used.memory.owner().get()) || is_lent(used);
}

bool random_program::is_lent(const known& asked) const {
  const storage* const of = asked.memory.owner().get();
  return std::any_of(lent_.begin(), lent_.end(), [&](const lent& view) { return view.of == of; });
}

std::size_t random_program::any_size() {
  constexpr std::array<std::size_t, 8> sizes{64, 64, 256, 1000, 4096, 4096, 20'000, 65'536};
  return sizes.at(draw_.below(sizes.size()));
}

void random_program::allocate() {
  if (buffers_.size() >= most_buffers) {
    return drop();
  }
  site& place = any_site();
  const auto& from = shares_.empty() || draw_.chance(60) ? place.ctx : shares_[draw_.below(shares_.size())];
  site& of = from->device() == place.ctx->device() ? place
                                                   : sites_[static_cast<std::size_t>(from->device().ordinal)];
  const std::size_t size = any_size();
  const stream_ref stream = any_stream(of);
  try {
    buffer made = buffer::allocate(from, size, stream, "program");
    // New memory has unknown bytes. The first write may be on any stream.
    fill(of, made, 0, size, any_stream(of), 1);
    buffers_.push_back({std::move(made), bytes(size, 1), &of});
  } catch (const error& e) {
    expect_code(e, errc::budget_exceeded);
  }
}

void random_program::fill(const site& of, const buffer& memory, std::size_t offset, std::size_t size,
                          stream_ref stream, std::uint8_t value) {
  use_token token(stream, {writes(memory)});
  of.ctx->copies().fill(token.span<std::uint8_t>(memory).data() + offset, value, size, stream);
  if (draw_.chance(80)) {
    token.finish(); // otherwise the destructor records the end
  }
}

void random_program::write() {
  if (buffers_.empty()) {
    return;
  }
  known& target = any_buffer();
  if (!target.memory.owner()->writable()) {
    return;
  }
  const std::size_t offset = draw_.below(target.expected.size());
  const std::size_t size = 1 + draw_.below(target.expected.size() - offset);
  const auto value = static_cast<std::uint8_t>(draw_.next());
  at_risk_.push_back(&target);
  if (!guarded([&] { fill(*target.place, target.memory, offset, size, any_stream(*target.place), value); })) {
    return;
  }
  std::fill_n(target.expected.begin() + static_cast<std::ptrdiff_t>(offset), size, value);
}

void random_program::copy() {
  if (buffers_.empty()) {
    return;
  }
  known& source = any_buffer();
  known& target = any_buffer();
  if (&source == &target || !target.memory.owner()->writable()) {
    return;
  }
  if (source.place != target.place && draw_.chance(40)) {
    return move(source, *target.place);
  }
  const std::size_t size = std::min(source.expected.size(), target.expected.size());
  const site& on = source.place == target.place || draw_.chance(50) ? *target.place : *source.place;
  const stream_ref stream = any_stream(on);
  at_risk_.push_back(&target);
  const bool done = guarded([&] {
    use_token token(stream, {reads(source.memory.slice(0, size)), writes(target.memory)});
    on.ctx->copies().copy(token.span<std::uint8_t>(target.memory).data(),
                          token.span<const std::uint8_t>(source.memory).data(), size,
                          copy_kind::device_to_device, stream);
  });
  if (done) {
    std::copy_n(source.expected.begin(), size, target.expected.begin());
    target.certain = target.certain && source.certain;
  }
}

void random_program::move(const known& source, site& target) {
  if (buffers_.size() >= most_buffers) {
    return drop();
  }
  const std::size_t size = 1 + draw_.below(source.expected.size());
  schema fields;
  batch rows{static_cast<std::int64_t>(size), {}};
  std::size_t first = 0;
  for (std::size_t parts = 1 + draw_.below(3); rows.columns.size() < parts;) {
    first = draw_.below(source.expected.size() - size + 1);
    fields.fields.push_back({"part", data_type(type_id::uint8), false, {}});
    rows.columns.push_back(
        column::make(source.place->ctx, {.type = fields.fields.front().type,
                                         .length = rows.rows,
                                         .null_count = 0,
                                         .buffers = {{}, source.memory.slice(first, size)}}));
  }
  const table whole = table::make(source.place->ctx, std::move(fields), {std::move(rows)});
  const peer_copy_sizes sizes{.direct = draw_.chance(50) ? 64U : 1U << 20U, .window = 4096, .few = 0};
  try {
    buffer made;
    const bool done = guarded(
        [&] { made = copy_from_peer(whole, target.ctx, "moved", sizes).front().columns.back().values(); });
    if (done) {
      const auto at = source.expected.begin() + static_cast<std::ptrdiff_t>(first);
      bytes expected(at, at + static_cast<std::ptrdiff_t>(size));
      buffers_.push_back({std::move(made), std::move(expected), &target, source.certain});
    }
  } catch (const error& e) {
    expect_code(e, errc::budget_exceeded);
  }
}

void random_program::read() {
  if (buffers_.empty()) {
    return;
  }
  const known& source = any_buffer();
  if (draw_.chance(20)) { // a stream that is destroyed while it has pending work
    const own_stream brief(timelines::of(*source.place->device));
    return read(source, brief.ref());
  }
  read(source, any_stream(*source.place));
}

void random_program::read(const known& source, stream_ref stream) {
  const std::shared_ptr<std::uint8_t> arrived = landing_of(*source.place, source.expected.size());
  const bool done = guarded([&] {
    use_token token(stream, {reads(source.memory)});
    source.place->ctx->copies().copy(arrived.get(), token.span<const std::uint8_t>(source.memory).data(),
                                     source.expected.size(), copy_kind::device_to_host, stream);
  });
  if (done && source.certain) {
    landings_.push_back({arrived, source.expected});
  }
}

std::shared_ptr<std::uint8_t> random_program::landing_of(const site& place, std::size_t size) {
  const failure_rate working = others();
  arrivals_.push_back(make_landing(place, size)); // kept even if a later call fails: the copy may be queued
  return arrivals_.back();
}

void random_program::read_everywhere() {
  if (buffers_.empty() || !draw_.chance(30)) {
    return;
  }
  known& source = any_buffer();
  const site& place = *source.place;
  for (const stream_lease& lease : place.leases) {
    read(source, lease.ref());
  }
  if (draw_.chance(30)) {
    drop(source);
    trim(place);
  }
}

void random_program::drop() {
  if (!buffers_.empty()) {
    drop(any_buffer());
  }
}

void random_program::drop(known& gone) {
  unfenced_pending_ = unfenced_pending_ || excused_;
  std::swap(gone, buffers_.back());
  buffers_.pop_back();
}

void random_program::trim(const site& place) {
  const failure_rate rate(sites_, std::min(10 * chosen_.fail_percent, 100U));
  place.ctx->trim();
}

void random_program::settle() {
  site& place = any_site();
  switch (draw_.below(4)) {
  case 0:
    return trim(place);
  case 1:
    place.ctx->drain();
    return;
  case 2:
    while (draw_.chance(90) && place.device->step()) {
    }
    return;
  default:
    if (!capture_) {
      place.ctx->synchronize(any_stream(place));
    }
  }
}

void random_program::share_budget() {
  if (shares_.size() >= 3) {
    shares_.pop_front();
    return;
  }
  const auto& from = any_site().ctx;
  try {
    shares_.push_back(draw_.chance(50) ? from->with_budget("share", 128U << 10U)
                                       : from->with_reservation(64U << 10U));
  } catch (const error& e) {
    expect_code(e, errc::budget_exceeded);
  }
}

void random_program::fail() {
  refuse(any_site());
  if (!buffers_.empty()) { // an exception ends a token; its work must still be ordered
    const known& source = any_buffer();
    try {
      const use_token token(any_stream(*source.place), {reads(source.memory)});
      throw error(errc::invalid_argument, "dropped");
    } catch (const error& e) {
      if (e.code() != errc::invalid_argument && !(capture_ && e.code() == errc::busy)) {
        throw;
      }
    }
  }
}
void random_program::refuse(const site& place) {
  const auto of_this = [&](const auto& share) { return share->device() == place.ctx->device(); };
  const auto share = std::find_if(shares_.begin(), shares_.end(), of_this);
  const auto& from = share == shares_.end() || draw_.chance(50) ? place.ctx : *share;
  const memory_statistics before = place.ctx->reports().statistics();
  try {
    static_cast<void>(buffer::allocate(from, budget_bytes + 1, any_stream(place), "too large"));
    found_.emplace_back("a request beyond the budget was accepted");
  } catch (const error& e) {
    expect_code(e, errc::budget_exceeded);
  }
  const std::uint64_t held = place.ctx->reports().statistics().held;
  if (before.pending_releases == 0 && held != before.held) {
    found_.push_back(
        concat("a refusal of the budget changed the bytes held from ", before.held, " to ", held));
  }
}

void random_program::end_elsewhere() {
  if (buffers_.empty()) {
    return;
  }
  known& target = any_buffer();
  if (!target.memory.owner()->writable()) {
    return;
  }
  excused_ = true;
  unfenced_.insert(target.memory.owner().get());
  unfenced_pending_ = true;
  at_risk_.push_back(&target);
  const auto value = static_cast<std::uint8_t>(draw_.next());
  const std::size_t size = target.expected.size();
  const bool done = guarded([&] {
    const stream_ref mine(*target.place->device, per_thread_stream);
    std::optional<use_token> token(std::in_place, mine, std::array{writes(target.memory)});
    target.place->ctx->copies().fill(token->span<std::uint8_t>(target.memory).data(), value, size, mine);
    std::thread([&] { token.reset(); }).join();
  });
  if (done) {
    std::fill(target.expected.begin(), target.expected.end(), value);
  }
}

void random_program::work_apart() {
  if (buffers_.empty() || capture_) {
    return;
  }
  known& used = any_buffer();
  if (!used.memory.owner()->writable() || is_lent(used)) {
    return;
  }
  const failure_rate working = others();
  const site& place = *used.place;
  const std::size_t size = used.expected.size();
  fill(place, used.memory, 0, size, any_stream(place), 3); // waits for users on unknown streams
  used.expected.assign(size, 3);
  used.certain = true;
  sites_.front().device->run();
  const auto gate = place.device->close_gate(place.foreign[draw_.below(place.foreign.size())]);
  const stream_ref apart = any_stream(place);
  if (draw_.chance(50)) {
    read(used, apart);
  } else {
    used.memory = {};
    try {
      used.memory = buffer::allocate(place.ctx, size, apart, "apart");
      fill(place, used.memory, 0, size, apart, 3);
    } catch (const error& e) {
      expect_code(e, errc::budget_exceeded);
      std::swap(used, buffers_.back());
      buffers_.pop_back();
    }
  }
  sites_.front().device->run();
  if (!place.device->stream_idle(apart.native_handle())) {
    found_.emplace_back("a stream waits for work that it has nothing to do with");
  }
}

} // namespace saeta::schedules
