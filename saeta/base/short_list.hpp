// A list that stores up to N values inside itself, and more of them on the heap.
//
// @code
// short_list<buffer, 3> buffers{buffer(), bytes}; // no validity buffer, then values; nothing on the heap
// buffers.push_back(bytes);
// for (const buffer& part : buffers) {
//   std::cout << part.size() << '\n';
// }
// @endcode
//
// What      The part of std::vector that lists of buffers need. A column has two or three buffers, and a
//           table may have thousands of columns. With a vector for each column, allocation would take as long
//           as the rest of the import.
// Owner     A value. Moving the list moves up to N values to new addresses; more than N keep theirs.
// Thread    Like std::vector.
#pragma once

#include "saeta/base/export.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

template <class T, std::size_t N>
class short_list {
public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  short_list() = default;
  short_list(std::initializer_list<T> values) : short_list(values.begin(), values.end()) {}
  template <std::input_iterator Iterator>
  short_list(Iterator first, Iterator last) {
    append(first, last);
  }
  short_list(const short_list&) = default;
  short_list& operator=(const short_list&) = default;
  short_list(short_list&& other) noexcept
      : size_(std::exchange(other.size_, 0)), few_(std::move(other.few_)), many_(std::move(other.many_)) {}
  short_list& operator=(short_list&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    few_ = std::move(other.few_);
    many_ = std::move(other.many_);
    return *this;
  }
  ~short_list() = default;

  template <class Iterator>
  void assign(Iterator first, Iterator last) {
    resize(0);
    append(first, last);
  }
  template <class Iterator>
  void append(Iterator first, Iterator last) {
    for (; first != last; ++first) {
      push_back(*first);
    }
  }
  void push_back(T value) {
    if (size_ == N && many_.empty()) {
      resize_elsewhere(N);
    }
    if (!many_.empty()) {
      many_.push_back(std::move(value));
    } else {
      few_[size_] = std::move(value);
    }
    ++size_;
  }
  template <class... Values>
  T& emplace_back(Values&&... values) {
    push_back(T(std::forward<Values>(values)...));
    return data()[size_ - 1];
  }
  void resize(std::size_t size) {
    if (size > N || !many_.empty()) {
      resize_elsewhere(size);
    }
    for (std::size_t i = size; i < std::min(size_, N); ++i) {
      few_[i] = T{};
    }
    size_ = size;
  }
  /// Reserves room for more than N values. For N or fewer it does nothing.
  void reserve(std::size_t size) {
    if (size > N) {
      many_.reserve(size);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T* data() noexcept { return many_.empty() ? few_.data() : many_.data(); }
  [[nodiscard]] const T* data() const noexcept { return many_.empty() ? few_.data() : many_.data(); }
  [[nodiscard]] T& operator[](std::size_t index) noexcept { return data()[index]; }
  [[nodiscard]] const T& operator[](std::size_t index) const noexcept { return data()[index]; }
  [[nodiscard]] iterator begin() noexcept { return data(); }
  [[nodiscard]] iterator end() noexcept { return data() + size_; }
  [[nodiscard]] const_iterator begin() const noexcept { return data(); }
  [[nodiscard]] const_iterator end() const noexcept { return data() + size_; }

private:
  /// Resizes to `size` values in `many_`. Moves the values there first if they are in `few_`.
  void resize_elsewhere(std::size_t size) {
    const bool first = many_.empty();
    many_.resize(size);
    for (std::size_t i = 0; first && i < size_; ++i) {
      many_[i] = std::exchange(few_[i], T{});
    }
  }

  std::size_t size_ = 0;
  std::array<T, N> few_{}; ///< used while `many_` is empty
  std::vector<T> many_;    ///< all values, once there are more than N
};

} // namespace saeta
