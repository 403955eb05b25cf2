#include "saeta/transfer/peer_copy.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/device/join.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/transfer_plan.hpp"
#include "saeta/transfer/column_window.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

namespace saeta {
namespace {

constexpr std::size_t slab_alignment = 64;

std::span<const std::byte> range_of(const buffer& of) {
  return {reinterpret_cast<const std::byte*>(of.address()), of.size()};
}

/// A buffer of a column in the slab.
struct arriving_buffer {
  enum class kind { absent, moved, changed };
  kind as = kind::absent;
  std::size_t group = 0;  ///< if moved: index of its storage; if changed: index of the change
  std::size_t number = 0; ///< if moved: number of its range in the plan of the storage
  std::size_t bytes = 0;
};

/// A column, with the places of its buffers.
struct arriving_column {
  const column_window* of = nullptr;
  std::size_t first = 0; ///< index of the first buffer of the column in the buffers of all columns
  std::vector<arriving_column> children;
};

/// The ranges of one storage.
struct moved_storage {
  buffer whole;
  transfer_plan plan;
  bool joined = false; ///< copied by the kernel, with other small ranges
  std::size_t at = 0;  ///< in the slab
};

/// Bytes that the kernel changes: a bitmap that begins inside a byte, or offsets that begin above 0.
struct changed_bytes {
  buffer source;
  join_step step; ///< for all of the bytes, without addresses
  std::size_t bytes = 0;
  std::size_t at = 0;
};

/// The part of a step that fills bytes [first, first + bytes) of its target. `first` is a multiple of 64.
join_step cut(const join_step& whole, std::size_t first, std::size_t bytes, std::byte* target) {
  join_step step = whole;
  step.source = static_cast<const std::byte*>(whole.source) + first;
  step.target = target;
  if (whole.kind == join_kind::bits) {
    const auto bits = static_cast<std::int64_t>(first * 8);
    step.count = std::min(whole.count - bits, static_cast<std::int64_t>(bytes * 8));
  } else if (whole.kind == join_kind::add) {
    step.count = static_cast<std::int64_t>(bytes) / whole.width;
  } else {
    step.count = static_cast<std::int64_t>(bytes);
  }
  return step;
}

class peer_copy {
public:
  peer_copy(std::shared_ptr<context> from, std::shared_ptr<context> target, std::string tag,
            const peer_copy_sizes& sizes)
      : from_(std::move(from)), target_(std::move(target)), tag_(std::move(tag)), sizes_(sizes) {}

  arriving_column plan(const column_window& of) {
    arriving_column result{&of, arriving_.size(), {}};
    for (std::size_t i = 0; i < of.from.buffers().size(); ++i) {
      arriving_.push_back(add(of, i));
    }
    for (const column_window& child : of.children) {
      result.children.push_back(plan(child));
    }
    if (const column* const values = of.from.dictionary();
        values != nullptr && !dictionaries_.contains(values)) {
      dictionary& added = dictionaries_[values];
      added.planned = plan(of.dictionary.front());
    }
    return result;
  }

  /// Call it once, when everything is planned.
  void run() {
    lay_out();
    if (slab_bytes_ == 0) {
      return;
    }
    slab_ = buffer::allocate(target_, slab_bytes_, target_->work_stream(), tag_);
    for (std::size_t i = 0; i * sizes_.window < joined_bytes_ && i < halves_.size(); ++i) {
      halves_[i] =
          buffer::allocate(from_, std::min(sizes_.window, joined_bytes_), from_->work_stream(), tag_);
    }
    std::vector<std::vector<join_step>> windows = steps_of_windows();
    const std::vector<join_step> steps = in_one_list(windows);
    // Uploaded before anything can wait for the target: the driver may wait for the stream of such a copy.
    const device_copy<join_step> uploaded(from_, steps);
    // Held until everything is queued, so that no write comes between two parts of the table.
    use_token sources(from_->work_stream(), uses_of_sources());
    copy_directly();
    std::size_t first = 0;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      copy_window(i, std::span(steps).subspan(first, windows[i].size()), uploaded, first);
      first += windows[i].size();
    }
    sources.finish();
    target_->copies().count().peer_to_device.add_transfer();
  }

  column make(const arriving_column& of) {
    const column& from = of.of->from;
    const row_window& rows = of.of->rows;
    column::parts parts;
    parts.type = from.type();
    parts.length = rows.rows - rows.offset;
    parts.offset = rows.offset;
    parts.null_count = nulls_of_part(from.known_null_count(), from.length(), parts.length);
    for (const arriving_buffer& arriving : std::span(arriving_).subspan(of.first, from.buffers().size())) {
      parts.buffers.push_back(arriving.as == arriving_buffer::kind::absent
                                  ? buffer{}
                                  : slab_.slice(place_of(arriving), arriving.bytes));
    }
    for (const arriving_column& child : of.children) {
      parts.children.push_back(make(child));
    }
    parts.dictionary = dictionary_of(from);
    return column::make(target_, std::move(parts));
  }

private:
  struct dictionary {
    arriving_column planned;
    std::shared_ptr<const column> made; ///< null until a column asks for it
  };

  arriving_buffer add(const column_window& of, std::size_t index) {
    buffer sent = of.bytes_of_rows(index);
    if (!sent.present()) {
      return {};
    }
    if (of.changes(index)) {
      return add_changed(of, index, std::move(sent));
    }
    const auto [known, fresh] = groups_.try_emplace(sent.owner().get(), storages_.size());
    if (fresh) {
      const buffer whole(sent.owner());
      storages_.push_back({whole, transfer_plan(range_of(whole)), false, 0});
    }
    return {arriving_buffer::kind::moved, known->second, storages_[known->second].plan.add(range_of(sent)),
            sent.size()};
  }

  arriving_buffer add_changed(const column_window& of, std::size_t index, buffer sent) {
    changed_bytes bytes;
    bytes.step.source = reinterpret_cast<const void*>(sent.address());
    if (const int shift = bit_shift(of.from.type(), index, of.rows); shift != 0) {
      bytes.step.kind = join_kind::bits;
      bytes.step.bits = {.source_first = shift, .target_first = 0, .nulls = nullptr};
      bytes.step.count = of.rows.rows;
      bytes.bytes = static_cast<std::size_t>((of.rows.rows + 7) / 8);
    } else {
      bytes.step.kind = join_kind::add;
      bytes.step.width = static_cast<std::int32_t>(of.from.type().offset_width());
      bytes.step.add = {-of.pointed.first};
      bytes.bytes = sent.size();
    }
    bytes.source = std::move(sent);
    changes_.push_back(std::move(bytes));
    return {arriving_buffer::kind::changed, changes_.size() - 1, 0, changes_.back().bytes};
  }

  /// The ranges that are joined come first, so that their windows are adjacent.
  void lay_out() {
    std::size_t ranges = changes_.size();
    for (moved_storage& storage : storages_) {
      storage.plan.finish();
      const std::size_t count = storage.plan.segments().size();
      storage.joined = storage.plan.slab_bytes() / sizes_.direct < count;
      ranges += storage.joined ? count : 0;
    }
    const bool joins = !changes_.empty() || ranges > sizes_.few;
    const auto place = [this](std::size_t& at, std::size_t bytes) {
      at = slab_bytes_;
      slab_bytes_ = checked_add(at, round_up(bytes, slab_alignment), "bytes of copied columns");
    };
    for (moved_storage& storage : storages_) {
      storage.joined = storage.joined && joins;
      if (storage.joined) {
        place(storage.at, storage.plan.slab_bytes());
      }
    }
    for (changed_bytes& change : changes_) {
      place(change.at, change.bytes);
    }
    joined_bytes_ = slab_bytes_;
    for (moved_storage& storage : storages_) {
      if (!storage.joined) {
        place(storage.at, storage.plan.slab_bytes());
      }
    }
  }

  [[nodiscard]] std::size_t place_of(const arriving_buffer& of) const {
    if (of.as == arriving_buffer::kind::changed) {
      return changes_[of.group].at;
    }
    return storages_[of.group].at + storages_[of.group].plan.target_of(of.number);
  }

  [[nodiscard]] std::vector<use> uses_of_sources() const {
    std::vector<use> uses;
    for (const moved_storage& storage : storages_) {
      uses.push_back(reads(storage.whole));
    }
    for (const changed_bytes& change : changes_) {
      uses.push_back(reads(change.source));
    }
    return uses;
  }

  void copy_directly() {
    std::vector<use> uses;
    for (const moved_storage& storage : storages_) {
      if (!storage.joined) {
        uses.push_back(reads(storage.whole));
      }
    }
    if (uses.empty()) {
      return;
    }
    uses.push_back(writes(slab_));
    use_token token(target_->work_stream(), uses);
    auto* const slab = token.span<std::byte>(slab_).data();
    for (const moved_storage& storage : storages_) {
      if (!storage.joined) {
        for (const segment& part : storage.plan.segments()) {
          target_->copies().copy_from_peer(slab + storage.at + part.target, part.source, part.bytes,
                                           storage.whole.kind(), token.stream());
        }
      }
    }
    token.finish();
  }

  /// Fills a window on the source and sends it.
  /// @param first  index of its first step in `uploaded`
  void copy_window(std::size_t index, std::span<const join_step> steps,
                   const device_copy<join_step>& uploaded, std::size_t first) {
    const std::size_t at = index * sizes_.window;
    const buffer half = halves_[index % halves_.size()].slice(0, std::min(sizes_.window, joined_bytes_ - at));
    const stream_ref joining = from_->work_stream();
    use_token filled(joining, {writes(half), reads(uploaded.memory())});
    // The kernel expects the bytes of bitmaps cleared, and what lies between two buffers stays defined.
    from_->copies().fill(filled.span<std::byte>(half).data(), 0, half.size(), joining);
    from_->kernels().join(joining.native_handle(), steps, uploaded.data(filled) + first);
    filled.finish();
    use_token sent(target_->work_stream(), {reads(half), writes(slab_)});
    target_->copies().copy_from_peer(sent.span<std::byte>(slab_).data() + at,
                                     sent.span<const std::byte>(half).data(), half.size(), half.kind(),
                                     sent.stream());
    sent.finish();
  }

  /// The steps that fill each window, cut where one window ends and the next begins.
  [[nodiscard]] std::vector<std::vector<join_step>> steps_of_windows() const {
    std::vector<std::vector<join_step>> windows((joined_bytes_ + sizes_.window - 1) / sizes_.window);
    const auto add = [&](const join_step& whole, std::size_t at, std::size_t bytes) {
      for (std::size_t done = 0; done < bytes;) {
        const std::size_t window = (at + done) / sizes_.window;
        const std::size_t in_window = at + done - window * sizes_.window;
        const std::size_t now = std::min(bytes - done, sizes_.window - in_window);
        auto* const half = reinterpret_cast<std::byte*>(halves_[window % halves_.size()].address());
        windows[window].push_back(cut(whole, done, now, half + in_window));
        done += now;
      }
    };
    for (const moved_storage& storage : storages_) {
      if (storage.joined) {
        for (const segment& part : storage.plan.segments()) {
          join_step copied;
          copied.source = part.source;
          add(copied, storage.at + part.target, part.bytes);
        }
      }
    }
    for (const changed_bytes& change : changes_) {
      add(change.step, change.at, change.bytes);
    }
    return windows;
  }

  /// The steps of all windows, each window with tiles of its own.
  static std::vector<join_step> in_one_list(std::vector<std::vector<join_step>>& windows) {
    std::vector<join_step> all;
    for (std::vector<join_step>& window : windows) {
      number_tiles(window);
      all.insert(all.end(), window.begin(), window.end());
    }
    return all;
  }

  std::shared_ptr<const column> dictionary_of(const column& from) {
    if (from.dictionary() == nullptr) {
      return nullptr;
    }
    dictionary& dictionary = dictionaries_.at(from.dictionary());
    if (dictionary.made == nullptr) {
      dictionary.made = std::make_shared<const column>(make(dictionary.planned));
    }
    return dictionary.made;
  }

  std::shared_ptr<context> from_;
  std::shared_ptr<context> target_;
  std::string tag_;
  peer_copy_sizes sizes_;
  std::vector<arriving_buffer> arriving_; ///< buffers of all columns, one column after the other
  std::vector<moved_storage> storages_;
  std::unordered_map<const storage*, std::size_t> groups_; ///< indices of `storages_`
  std::vector<changed_bytes> changes_;
  std::map<const column*, dictionary> dictionaries_;
  std::size_t joined_bytes_ = 0; ///< at the start of the slab
  std::size_t slab_bytes_ = 0;
  buffer slab_;
  std::array<buffer, 2> halves_; ///< of the source: one is filled while the other one travels
};

} // namespace

std::vector<batch> copy_from_peer(const table& source, const std::shared_ptr<context>& target,
                                  const std::string& tag, const peer_copy_sizes& sizes) {
  require_argument(target, "target");
  std::vector<column> columns;
  for (const batch& batch : source.batches()) {
    columns.insert(columns.end(), batch.columns.begin(), batch.columns.end());
  }
  const std::vector<column_window> windows = find_windows(source.ctx(), columns, view_bytes::all);
  peer_copy copied(source.ctx(), target, tag, sizes);
  std::vector<arriving_column> planned;
  planned.reserve(windows.size());
  for (const column_window& window : windows) {
    planned.push_back(copied.plan(window));
  }
  copied.run();
  std::vector<batch> batches;
  auto next = planned.begin();
  for (const batch& source_batch : source.batches()) {
    batch& there = batches.emplace_back();
    there.rows = source_batch.rows;
    for (std::size_t i = 0; i < source_batch.columns.size(); ++i) {
      there.columns.push_back(copied.make(*next++));
    }
  }
  return batches;
}

} // namespace saeta
