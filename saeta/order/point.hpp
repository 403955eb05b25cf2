// Points: moments on the timeline of a stream. Memory remembers its users as points.
//
// @code
// point_set uses;
// uses.add(mark(stream)); // after everything that is queued on each stream now
// uses.add(mark(ctx->work_stream()));
// ctx->synchronize(uses); // blocks the host until both have passed
// @endcode
//
// What      A point is a timeline and an epoch, 16 bytes. Work that was queued on the stream before the point
//           was taken belongs to that epoch or to an earlier one. A point of a retired timeline has passed.
// Thread    Values. See order/timeline.hpp for how points are taken, waited for and queried.
#pragma once

#include "saeta/base/export.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace SAETA_EXPORT saeta {

/// Identifies a timeline: unique in the process across devices and backends, never reused. 0 means none.
enum class timeline_id : std::uint64_t { none = 0 };

struct point {
  timeline_id timeline = timeline_id::none;
  std::uint64_t epoch = 0;

  /// A point without a timeline has always passed.
  [[nodiscard]] bool empty() const noexcept { return timeline == timeline_id::none; }
  friend bool operator==(const point&, const point&) = default;
};

static_assert(sizeof(point) == 16);

/// Points of different timelines. A later point of a timeline replaces an earlier one, because it covers it.
class point_set {
public:
  point_set() = default;
  point_set(const point_set& other) { add(other.all()); }
  point_set(point_set&& other) noexcept { take(other); }
  point_set& operator=(const point_set& other) {
    if (this != &other) {
      point_set copy(other);
      take(copy);
    }
    return *this;
  }
  point_set& operator=(point_set&& other) noexcept {
    if (this != &other) {
      take(other);
    }
    return *this;
  }
  ~point_set() = default;

  /// An empty point is ignored. @throws std::bad_alloc.
  void add(point added) {
    if (added.empty()) {
      return;
    }
    for (point& known : mutable_points()) {
      if (known.timeline == added.timeline) {
        known.epoch = std::max(known.epoch, added.epoch);
        return;
      }
    }
    if (size_ == capacity()) {
      grow();
    }
    data()[size_++] = added;
  }
  /// Sets the first point of a set that has never had one.
  void start_with(point first) noexcept {
    few_.front() = first;
    size_ = first.empty() ? 0 : 1;
  }
  void add(std::span<const point> added) {
    for (const point& point : added) {
      add(point);
    }
  }
  template <class Predicate>
  void remove_if(Predicate passed) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!passed(data()[i])) {
        data()[kept++] = data()[i];
      }
    }
    size_ = kept;
  }
  /// Removes and returns the oldest point. The set must not be empty.
  point pop_front() noexcept {
    const point first = *data();
    for (std::size_t i = 1; i < size_; ++i) {
      data()[i - 1] = data()[i];
    }
    --size_;
    return first;
  }
  void clear() noexcept { size_ = 0; }

  [[nodiscard]] std::span<const point> all() const noexcept { return {data(), size_}; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
  static constexpr std::size_t few = 2; // one writer and one reader

  [[nodiscard]] std::size_t capacity() const noexcept { return many_ ? many_capacity_ : few; }
  [[nodiscard]] point* data() noexcept { return many_ ? many_.get() : few_.data(); }
  [[nodiscard]] const point* data() const noexcept { return many_ ? many_.get() : few_.data(); }
  [[nodiscard]] std::span<point> mutable_points() noexcept { return {data(), size_}; }
  void grow() {
    const std::size_t larger = 4 * capacity();
    auto moved = std::make_unique<point[]>(larger);
    std::copy_n(data(), size_, moved.get());
    many_ = std::move(moved);
    many_capacity_ = larger;
  }
  void take(point_set& other) noexcept {
    few_ = other.few_;
    many_ = std::move(other.many_);
    many_capacity_ = other.many_capacity_;
    size_ = other.size_;
    other.size_ = 0;
  }

  std::array<point, few> few_{};
  std::unique_ptr<point[]> many_;
  std::size_t many_capacity_ = 0;
  std::size_t size_ = 0;
};

} // namespace saeta
