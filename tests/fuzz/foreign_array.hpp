// An ArrowArray with everything in it, as a producer might have it: every field can be broken.
//
// What      Made from a sound array. `break_field` changes one field of one struct to a value that a consumer
//           can detect or that means another sound array. C Data has no buffer sizes, so three changes are
//           never made, because nobody could detect them: rows past those of the buffers that don't overflow,
//           string offsets past the bytes, and pointers to nowhere. Buffers have exactly the bytes that they
//           need, so a sanitizer sees every access past them.
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
  /// Copies the structs of an array on a device but not its memory, none of which is changed. Does not take
  /// `of`, which is released after this.
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
