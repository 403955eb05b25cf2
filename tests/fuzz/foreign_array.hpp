// An ArrowArray with everything in it, as a producer might have it: every field can be broken.
//
// What      Made of a sound array. `break_field` changes one field of one struct to something that a consumer can detect or that
//           means another sound array. C Data has no sizes of buffers, so three things are never done, because nobody could
//           detect them: rows past those of the buffers that don't overflow, string offsets past the bytes, and pointers to
//           nowhere. Buffers have exactly their bytes, so a sanitizer sees what goes beyond.
// Owner     Outlives what imports it. Ends the program when it goes without having been released once.
#pragma once

#include "fuzz/harness.hpp"
#include "saeta/interop/arrow/abi.hpp"

#include <memory>
#include <vector>

namespace saeta::fuzz {

class foreign_array {
public:
  /// A copy of an array in host memory.
  explicit foreign_array(const support::plain_array& of);
  /// A record batch of the children, of `rows` rows.
  foreign_array(const std::vector<support::shared_array>& children, std::int64_t rows);
  /// The structs of an array on a device copied, not its memory, of which nothing is changed. `of` is not taken: it is released
  /// after this.
  foreign_array(const data_type& type, const ArrowArray& of);
  foreign_array(const foreign_array&) = delete;
  foreign_array& operator=(const foreign_array&) = delete;
  ~foreign_array();

  /// To be given away, once.
  [[nodiscard]] ArrowArray get() const noexcept;
  void break_field(input& from);
  /// What the owner does with an array that was refused: it must be as it was given away.
  void give_back(const ArrowArray& refused);

private:
  struct node;
  std::unique_ptr<node> root_;
  std::vector<node*> all_;
  int releases_ = 0;

  void finish();
};

} // namespace saeta::fuzz
