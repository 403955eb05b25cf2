#include "saeta/spill/compressor.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <utility>

namespace saeta {
namespace {

constexpr const char* window_tag = "spill";
/// Three windows of this size leave room in the 64 MiB that a device near its limit can spare, and a copy of
/// what is left of one takes longer than its kernel and the calls.
constexpr std::uint64_t most_window_bytes = std::uint64_t{16} << 20;
constexpr std::uint64_t least_window_bytes = std::uint64_t{64} << 10;
/// A shorter stretch joins the one before it: its own blocks would have more headers than they save.
constexpr std::size_t shortest_run = 4096;
constexpr std::size_t sample_bytes = std::size_t{1} << 20;
constexpr std::size_t part_alignment = 64; ///< of the parts of a window's memory
constexpr std::size_t windows_on_the_way = 3;

/// Whether compressed bytes are fewer by a sixth.
bool is_worth(std::uint64_t compressed, std::uint64_t bytes) noexcept {
  return compressed <= bytes - bytes / 6;
}

/// A stretch of a body: where a buffer of a column begins.
struct stretch {
  std::size_t first = 0;
  std::int32_t width = 1;
  std::int32_t stride = 1;
  bool floats = false;
};

stretch describe(const data_type& type, const buffer_spec& spec, std::size_t first) {
  stretch at{.first = first};
  const std::int32_t width = spec.role == buffer_role::views ? 16 : spec.width;
  if (spec.is_bitmap() || spec.role == buffer_role::bytes || width <= 0) {
    return at;
  }
  if (width % 8 == 0) {
    at.width = 8;
    at.stride = width / 8 <= 4 ? width / 8 : 1;
  } else {
    at.width = width % 4 == 0 ? 4 : (width % 2 == 0 ? 2 : 1);
    at.stride = width / at.width <= 4 ? width / at.width : 1;
  }
  at.floats =
      (type.id() == type_id::float64 || type.id() == type_id::float32) && spec.role == buffer_role::values;
  return at;
}

void append(const column& of, const buffer& body, std::vector<stretch>& stretches) {
  const std::span<const buffer> buffers = of.buffers();
  for (std::size_t number = 0; number < buffers.size(); ++number) {
    const buffer& part = buffers[number];
    if (part.present() && part.owner() == body.owner() && part.size() != 0) {
      stretches.push_back(describe(of.type(), of.type().buffer(number), part.offset() - body.offset()));
    }
  }
  for (const column& child : of.children()) {
    append(child, body, stretches);
  }
  if (of.dictionary() != nullptr) {
    append(*of.dictionary(), body, stretches);
  }
}

/// The stretches of a body in their order. Each ends where the next one begins, so that together they are all of
/// its bytes.
std::vector<stretch> stretches_of(const table& of, const buffer& body) {
  std::vector<stretch> all;
  for (const auto& batch : of.batches()) {
    for (const column& part : batch.columns) {
      append(part, body, all);
    }
  }
  std::ranges::stable_sort(all, {}, &stretch::first);
  std::vector<stretch> kept{{}};
  for (const stretch& next : all) {
    if (next.first % 8 != 0 || next.first >= body.size()) {
      continue;
    }
    if (next.first - kept.back().first >= shortest_run || next.first == kept.back().first) {
      if (next.first == kept.back().first) {
        kept.pop_back();
      }
      kept.push_back(next);
    }
  }
  return kept;
}

/// Appends a stretch of bytes as runs of a window: whole values, and the bytes behind the last one.
void append_runs(const stretch& of, std::size_t bytes, compressed_window& window) {
  const auto add = [&](std::size_t first, std::size_t some, std::int32_t width, std::int32_t stride,
                       bool floats) {
    if (some != 0) {
      word_run run{.first_byte = static_cast<std::int64_t>(first),
                   .words = static_cast<std::int64_t>(some) / width,
                   .first_block = window.blocks,
                   .width = width,
                   .stride = stride,
                   .floats = floats};
      window.blocks += block_format::blocks_of(run);
      window.runs.push_back(run);
    }
  };
  const std::size_t first = of.first - window.first;
  const std::size_t value = static_cast<std::size_t>(of.width) * static_cast<std::size_t>(of.stride);
  const std::size_t whole = bytes - bytes % value;
  add(first, whole, of.width, of.stride, of.floats);
  add(first + whole, bytes - whole, 1, 1, false);
}

/// The bytes of a stretch that whole blocks have.
std::size_t block_bytes(const stretch& of) noexcept {
  return static_cast<std::size_t>(block_format::block_words) * static_cast<std::size_t>(of.width) *
         static_cast<std::size_t>(of.stride);
}

/// A body outside of the device whose windows are compressed.
class compressed_body final : public spilled_body {
public:
  struct stored_window {
    spilled_pointer bytes;
    bool compressed = false;
  };

  compressed_body(std::shared_ptr<const compressor> by, std::shared_ptr<const compression_plan> plan,
                  std::vector<stored_window> windows)
      : by_(std::move(by)), plan_(std::move(plan)), windows_(std::move(windows)) {}

  /// The fastest one that has a window: those can still move on.
  [[nodiscard]] spill_tier tier() const noexcept override {
    spill_tier fastest = spill_tier::file;
    for (const stored_window& window : windows_) {
      fastest = std::min(fastest, window.bytes->tier());
    }
    return fastest;
  }

  [[nodiscard]] std::uint64_t stored_bytes() const noexcept override {
    std::uint64_t bytes = 0;
    for (const stored_window& window : windows_) {
      bytes += window.bytes->stored_bytes();
    }
    return bytes;
  }

  [[nodiscard]] buffer restore(const std::shared_ptr<context>& into) const override;

  [[nodiscard]] std::vector<std::span<const std::byte>> parts() const override { return {}; }

  [[nodiscard]] spilled_pointer moved(spill_tier to, const mover& move) const override {
    std::vector<stored_window> windows = windows_;
    for (stored_window& window : windows) {
      if (window.bytes->tier() < to) {
        window.bytes = window.bytes->moved(to, move);
      }
    }
    return std::make_shared<compressed_body>(by_, plan_, std::move(windows));
  }

private:
  struct uploaded_runs {
    buffer memory; ///< the count of damaged blocks, then the runs of all windows
    std::vector<std::size_t> first;
  };
  [[nodiscard]] uploaded_runs upload_runs(const std::shared_ptr<context>& into, stream_ref stream) const;
  void unpack(context& into, const stored_window& stored, std::size_t number, const buffer& arrived,
              const uploaded_runs& runs, const buffer& body) const;
  void require_undamaged(context& into, const uploaded_runs& runs) const;

  std::shared_ptr<const compressor> by_;
  std::shared_ptr<const compression_plan> plan_;
  std::vector<stored_window> windows_;
};

buffer compressed_body::restore(const std::shared_ptr<context>& into) const {
  const stream_ref stream = by_->stream();
  buffer body = buffer::allocate(into, plan_->bytes, into->work_stream(), window_tag);
  const uploaded_runs runs = upload_runs(into, stream);
  std::deque<point> running;
  for (std::size_t number = 0; number < windows_.size(); ++number) {
    if (running.size() == windows_on_the_way) { // so that no more of them take memory
      point_set oldest;
      oldest.add(running.front());
      into->synchronize(oldest);
      running.pop_front();
    }
    unpack(*into, windows_[number], number, windows_[number].bytes->restore(into), runs, body);
    running.push_back(record(stream));
  }
  if (std::ranges::any_of(windows_,
                          [](const auto& window) { return window.bytes->tier() == spill_tier::file; })) {
    require_undamaged(*into, runs);
  }
  return body;
}

compressed_body::uploaded_runs compressed_body::upload_runs(const std::shared_ptr<context>& into,
                                                            stream_ref stream) const {
  uploaded_runs uploaded;
  std::vector<word_run> all(1); // its bytes are the count of damaged blocks
  for (const compressed_window& window : plan_->windows) {
    uploaded.first.push_back(all.size());
    all.insert(all.end(), window.runs.begin(), window.runs.end());
  }
  const auto described = std::as_bytes(std::span(all));
  uploaded.memory = buffer::allocate(into, described.size(), into->work_stream(), window_tag);
  use_token token(stream, {writes(uploaded.memory)});
  std::byte* const target = token.span<std::byte>(uploaded.memory).data();
  into->copies().fill(target, 0, sizeof(word_run), stream);
  into->copies().send_description(target + sizeof(word_run), described.subspan(sizeof(word_run)), stream);
  token.finish();
  return uploaded;
}

void compressed_body::unpack(context& into, const stored_window& stored, std::size_t number,
                             const buffer& arrived, const uploaded_runs& runs, const buffer& body) const {
  const compressed_window& window = plan_->windows[number];
  const stream_ref stream = by_->stream();
  use_token token(stream, {reads(arrived), updates(runs.memory), writes(body)});
  std::byte* const target = token.span<std::byte>(body).data() + window.first;
  const std::byte* const source = token.span<const std::byte>(arrived).data();
  if (stored.compressed) {
    std::byte* const described = token.span<std::byte>(runs.memory).data();
    const std::size_t headers = static_cast<std::size_t>(window.blocks) * sizeof(compressed_block);
    decompress_work work;
    work.headers = reinterpret_cast<const compressed_block*>(source);
    work.payload = reinterpret_cast<const std::uint32_t*>(source + headers);
    work.units = (arrived.size() - headers) / sizeof(std::uint32_t);
    work.runs = reinterpret_cast<const word_run*>(described) + runs.first[number];
    work.run_count = static_cast<std::int64_t>(window.runs.size());
    work.blocks = window.blocks;
    work.target = target;
    work.bytes = window.bytes;
    work.damaged = reinterpret_cast<std::uint32_t*>(described);
    into.kernels().decompress(stream.native_handle(), work);
  } else {
    into.copies().copy(target, source, window.bytes, into.copies().kind_between(arrived.kind(), body.kind()),
                       stream);
  }
  token.finish();
}

void compressed_body::require_undamaged(context& into, const uploaded_runs& runs) const {
  std::uint32_t damaged = 0;
  const stream_ref stream = by_->stream();
  use_token token(stream, {reads(runs.memory)});
  into.copies().read_scalar(&damaged, token.span<const std::byte>(runs.memory).data(), sizeof damaged,
                            stream);
  token.finish();
  if (damaged != 0) {
    std::int64_t blocks = 0;
    for (const compressed_window& window : plan_->windows) {
      blocks += window.blocks;
    }
    throw error(errc::io, concat("the spill file of a table of ", plan_->bytes, " bytes is damaged: ",
                                 damaged, " of its ", blocks, " blocks are not what was written"));
  }
}

/// The turn of one thread.
class turn_of_one {
public:
  explicit turn_of_one(std::atomic<bool>& busy) : busy_(busy), taken_(!busy.exchange(true)) {}
  turn_of_one(const turn_of_one&) = delete;
  turn_of_one& operator=(const turn_of_one&) = delete;
  ~turn_of_one() {
    if (taken_) {
      busy_ = false;
    }
  }
  [[nodiscard]] bool taken() const noexcept { return taken_; }

private:
  std::atomic<bool>& busy_;
  bool taken_;
};

} // namespace

compressor::compressor(const std::shared_ptr<context>& root)
    : root_(root), stream_(root->device_backend()),
      window_bytes_(std::bit_floor(
          std::clamp(root->memory_budget()->limit() / 64, least_window_bytes, most_window_bytes))),
      // A window has parts of two stretches at its ends, and each run may be followed by one of single bytes.
      most_runs_(2 * (window_bytes_ / shortest_run + 2)) {
  for (slot& each : slots_) {
    each = make_slot();
  }
}

compressor::~compressor() = default;

compressor::slot compressor::make_slot() const {
  slot made;
  made.data = round_up(part_alignment + most_runs_ * sizeof(word_run), part_alignment);
  made.memory =
      buffer::allocate(root_, made.data + window_bytes_ - window_bytes_ / 6, stream_.ref(), window_tag);
  return made;
}

compression_plan compressor::plan(const table& of, const buffer& body) const {
  compression_plan made;
  made.bytes = body.size();
  const std::vector<stretch> stretches = stretches_of(of, body);
  const std::size_t part = std::max(sample_bytes / stretches.size(), std::size_t{1});
  compressed_window window;
  const auto finish = [&](std::size_t next) {
    window.bytes = next - window.first;
    if (window.bytes != 0) {
      made.windows.push_back(std::exchange(window, {}));
      window.first = next;
    }
  };
  for (std::size_t number = 0; number < stretches.size(); ++number) {
    stretch left = stretches[number];
    const std::size_t end = number + 1 < stretches.size() ? stretches[number + 1].first : body.size();
    if (made.sample.runs.size() + 2 <= most_runs_) {
      const std::size_t bytes = std::min(end - left.first, round_up(part, block_bytes(left)));
      append_runs(left, bytes, made.sample);
      made.sample.bytes += bytes;
    }
    while (left.first != end) {
      const std::size_t room = window_bytes_ - (left.first - window.first);
      const std::size_t fitting = room - room % block_bytes(left);
      if (fitting == 0 || window.runs.size() + 2 > most_runs_) {
        finish(left.first);
        continue;
      }
      const std::size_t bytes = std::min(end - left.first, fitting);
      append_runs(left, bytes, window);
      left.first += bytes;
    }
  }
  finish(body.size());
  return made;
}

spilled_pointer compressor::compress(const std::shared_ptr<context>& ctx, const buffer& body,
                                     const std::shared_ptr<const compression_plan>& plan,
                                     std::optional<bool>& pays, const store& keep) {
  const turn_of_one turn(busy_);
  if (!turn.taken()) {
    return nullptr;
  }
  if (!pays) {
    begin(*ctx, body, plan->sample, slots_.front());
    pays = end(*ctx, plan->sample, slots_.front()).present();
  }
  if (!*pays) {
    return nullptr;
  }
  std::vector<compressed_body::stored_window> stored;
  const std::size_t count = plan->windows.size();
  for (std::size_t number = 0; number <= count; ++number) {
    if (number < count) {
      begin(*ctx, body, plan->windows[number], slots_[number % slots_.size()]);
    }
    if (number > 0) {
      const compressed_window& window = plan->windows[number - 1];
      const buffer smaller = end(*ctx, window, slots_[(number - 1) % slots_.size()]);
      stored.push_back(
          {keep(smaller.present() ? smaller : body.slice(window.first, window.bytes)), smaller.present()});
    }
  }
  return std::make_shared<compressed_body>(shared_from_this(), plan, std::move(stored));
}

void compressor::begin(context& ctx, const buffer& body, const compressed_window& window, slot& into) {
  const stream_ref stream = stream_.ref();
  use_token token(stream, {reads(body), writes(into.memory)});
  std::byte* const memory = token.span<std::byte>(into.memory).data();
  std::byte* const runs = memory + part_alignment;
  std::byte* const headers = memory + into.data;
  const std::size_t header_bytes = static_cast<std::size_t>(window.blocks) * sizeof(compressed_block);
  const std::size_t room = into.memory.size() - into.data;
  if (header_bytes < room) {
    ctx.copies().send_description(runs, std::as_bytes(std::span(window.runs)), stream);
    compress_work work;
    work.source = token.span<const std::byte>(body).data() + window.first;
    work.bytes = body.size() - window.first;
    work.runs = reinterpret_cast<const word_run*>(runs);
    work.run_count = static_cast<std::int64_t>(window.runs.size());
    work.blocks = window.blocks;
    work.headers = reinterpret_cast<compressed_block*>(headers);
    work.payload = reinterpret_cast<std::uint32_t*>(headers + header_bytes);
    work.capacity = (room - header_bytes) / sizeof(std::uint32_t);
    work.needed = reinterpret_cast<std::uint64_t*>(memory);
    ctx.kernels().compress(stream.native_handle(), work);
  } else {
    ctx.copies().fill(memory, 0xff, sizeof(std::uint64_t), stream); // more units than there is room for
  }
  token.finish();
}

buffer compressor::end(context& ctx, const compressed_window& window, const slot& from) const {
  std::uint64_t units = 0;
  const stream_ref stream = stream_.ref();
  use_token token(stream, {reads(from.memory)});
  ctx.copies().read_scalar(&units, token.span<const std::byte>(from.memory).data(), sizeof units, stream);
  token.finish();
  const std::uint64_t headers = static_cast<std::uint64_t>(window.blocks) * sizeof(compressed_block);
  const std::uint64_t room = from.memory.size() - from.data;
  if (headers >= room || units > (room - headers) / sizeof(std::uint32_t)) {
    return {};
  }
  const std::uint64_t bytes = headers + units * sizeof(std::uint32_t);
  return is_worth(bytes, window.bytes) ? from.memory.slice(from.data, bytes) : buffer();
}

} // namespace saeta
