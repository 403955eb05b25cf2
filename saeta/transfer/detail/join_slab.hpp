// The memory of a group of joined pieces: where each buffer lies in one slab, the steps that fill it, and the columns over it.
#pragma once

#include "saeta/device/join.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/detail/join_node.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

class join_slab {
public:
  /// Pieces [first, end), which the nodes have taken as one group.
  join_slab(std::shared_ptr<context> home, std::vector<join_node>& nodes, std::size_t first, std::size_t end);

  /// Allocates, queues the kernel, and waits for null counts that were unknown.
  /// @throws error budget_exceeded, out_of_memory, invalid_argument (misaligned memory of others).
  [[nodiscard]] std::vector<column> columns();

private:
  static constexpr std::size_t absent = static_cast<std::size_t>(-1);

  /// A buffer of the result. Bits come first in the slab, and are 0 before the kernel runs.
  struct place {
    std::size_t at = absent;
    std::size_t bytes = 0;
    bool bits = false;
  };
  /// A column of the result, or a child of one.
  struct joined {
    join_node* node = nullptr;
    std::vector<place> buffers;
    std::int64_t nulls = 0;       ///< of the spans that know theirs
    std::size_t counter = absent; ///< of the nulls of the others
    std::vector<joined> children;
    std::vector<place> run_ends; ///< one, of run-end encoded columns
    std::shared_ptr<const column> dictionary;
  };
  /// A step whose pointers are still to come.
  struct draft {
    join_step step;
    const buffer* source = nullptr;
    std::size_t source_byte = 0;
    place target;
    std::size_t target_byte = 0;
    std::size_t table = absent; ///< place in `tables_`
    const buffer* ids = nullptr;
    std::size_t ids_byte = 0;
    std::size_t counter = absent;
  };

  place add_place(std::size_t bytes, bool bits = false);
  joined lay_out(join_node& node);
  void lay_out_validity(joined& made);
  void add_validity(const joined& made);
  void add_buffer(const joined& made, std::size_t index);
  void add_run_ends(const joined& made);
  void add_union_offsets(const joined& made);
  void add_offsets(const joined& made);
  void add_steps(const joined& made);
  draft& add_draft(join_kind kind, const place& target, std::size_t target_byte, std::int64_t count);
  void upload_dictionaries(std::vector<joined>& of);
  void run();
  join_step finished(const draft& from, const use_token& token, const std::int64_t* tables) const;
  void require_aligned(const join_step& step) const;
  [[nodiscard]] std::vector<use> uses(const buffer& tables) const;
  [[nodiscard]] buffer in_slab(const place& at) const;
  [[nodiscard]] column make(const joined& from) const;

  /// Calls `visit(span, piece)` for the spans of the group that were taken.
  template <class Visit>
  void for_each_span(const join_node& node, Visit visit) const {
    for (std::size_t piece = first_; piece < end_; ++piece) {
      if (node.spans[piece].taken) {
        visit(node.spans[piece], piece);
      }
    }
  }

  std::shared_ptr<context> home_;
  std::vector<join_node>& nodes_;
  std::size_t first_;
  std::size_t end_;
  std::size_t bits_bytes_ = 0;  ///< of the slab's first part
  std::size_t other_bytes_ = 0; ///< of the rest
  std::size_t counters_ = 0;
  place counter_place_;
  std::vector<std::int64_t> counted_;
  std::vector<draft> drafts_;
  std::vector<std::int64_t> tables_;
  buffer slab_;
};

} // namespace saeta
