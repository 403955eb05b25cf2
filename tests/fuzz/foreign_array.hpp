// An ArrowArray of a producer, with children and dictionary, whose fields can be broken one by one.
//
// Contents  A copy of a valid array. `break_field` changes one field of one struct, so that the array is
//           either still valid or broken in a way that a consumer can detect. C Data carries no buffer sizes,
//           so three changes are never made: more rows than the buffers have (unless the number overflows),
//           string offsets past the data buffer, and invalid pointers. Buffers have exactly the bytes that
//           they need, so that a sanitizer reports every access past them.
// Owner     Outlives every import of it. The destructor ends the program unless it was released exactly once.
#pragma once

#include "fuzz/harness.hpp"
#include "saeta/interop/arrow/abi.hpp"

#include <memory>
#include <vector>

namespace saeta::fuzz {

class foreign_array {
public:
  /// Copies an array into host memory.
  explicit foreign_array(const support::plain_array& of);
  /// Makes a record batch of `rows` rows from its columns.
  foreign_array(const std::vector<support::shared_array>& children, std::int64_t rows);
  /// Copies the structs of an array on a device, which share its buffers. `of` must be released after this
  /// object is destroyed.
  foreign_array(const data_type& type, const ArrowArray& of);
  foreign_array(const foreign_array&) = delete;
  foreign_array& operator=(const foreign_array&) = delete;
  ~foreign_array();

  /// Returns the struct to hand over to a consumer, once.
  [[nodiscard]] ArrowArray get() const noexcept;
  void break_field(input& from);
  /// Takes back an array that an import refused, and checks that the import has not released it.
  void give_back(const ArrowArray& refused);

private:
  struct node;
  std::unique_ptr<node> root_;
  std::vector<node*> all_;
  int releases_ = 0;

  void finish();
};

} // namespace saeta::fuzz
