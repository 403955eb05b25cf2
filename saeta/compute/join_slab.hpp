// The memory of a group of joined pieces: the place of each buffer in one slab, the steps that fill it, and
// the columns over it.
#pragma once

#include "saeta/compute/join_node.hpp"
#include "saeta/compute/slab_plan.hpp"
#include "saeta/device/join.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saeta {

/// Bytes of a buffer, which are copied into the slab as they are. Their copy is absent if there are none.
struct plain_bytes {
  const buffer* from = nullptr;
  byte_window window;
};

class join_slab {
public:
  /// Joins pieces [first, end), which the nodes have taken as one group.
  /// @param plain  copied beside them; must outlive the slab
  join_slab(std::shared_ptr<context> ctx, std::vector<join_node>& nodes, std::size_t first, std::size_t end,
            std::string tag = "combine", std::span<const plain_bytes> plain = {});

  /// Allocates the slab, queues the kernels (one, and before it some for large parts of `plain`), and waits
  /// for unknown null counts.
  /// @throws error budget_exceeded, out_of_memory, invalid_argument (misaligned external memory)
  [[nodiscard]] std::vector<column> columns();
  /// The memory of the columns, once they are made.
  [[nodiscard]] const buffer& slab() const noexcept { return slab_; }
  /// The place of the copy of bytes `index` of `plain` in the slab, once the columns are made.
  [[nodiscard]] byte_window plain(std::size_t index) const noexcept {
    const slab_place& at = plain_places_[index];
    return at.present() ? byte_window{plan_.byte_of(at), at.bytes} : byte_window();
  }

private:
  /// A column of the result, or a child of one.
  struct joined {
    join_node* node = nullptr;
    std::vector<slab_place> buffers;
    std::int64_t nulls = 0;                            ///< known nulls of the spans
    std::uint32_t counter = scatter_step::not_counted; ///< counts the nulls of the other spans
    std::size_t ones = slab_plan::no_fill;             ///< latest fill of its validity
    std::vector<joined> children;
    std::vector<slab_place> run_ends; ///< one, only for run-end encoded columns
    std::shared_ptr<const column> dictionary;
  };

  joined lay_out(join_node& node);
  void lay_out_validity(joined& made);
  void upload_dictionaries(std::vector<joined>& of);
  void add_steps(joined& made);
  void add_validity(joined& made);
  void add_buffer(joined& made, std::size_t index);
  void add_unchanged(const joined& made, std::size_t index);
  void add_indices(const joined& made);
  void add_list_starts(const joined& made);
  void add_offsets(const joined& made);
  void add_views(const joined& made);
  void add_union_rows(const joined& made);
  void add_run_ends(const joined& made);
  void run(std::vector<joined>& of);
  [[nodiscard]] std::vector<join_step> finished_steps(std::byte* slab, const std::int64_t* tables) const;
  void require_aligned(const join_step& step) const;
  void append_sources(const joined& of, std::size_t piece, const storage_reads& reads,
                      std::vector<const buffer*>& sources) const;
  [[nodiscard]] std::vector<use> uses(const std::vector<joined>& of, std::size_t first) const;
  void append_uses(std::size_t first, std::size_t end, std::vector<use>& uses) const;
  void append_copies(std::size_t first, std::size_t end, std::byte* slab,
                     std::vector<join_step>& steps) const;
  [[nodiscard]] bool is_shared() const;
  void launch_on_threads(std::span<const join_step> steps) const;
  void launch(std::vector<join_step> steps) const;
  void copy(std::size_t first, std::size_t end) const;
  [[nodiscard]] std::size_t copy_large_parts() const;
  [[nodiscard]] buffer in_slab(const slab_place& at) const;
  [[nodiscard]] column make(const joined& from) const;

  /// Calls `visit(span, piece)` for each span taken into the group.
  template <class Visit>
  void for_each_span(const join_node& node, Visit visit) const {
    for (std::size_t piece = first_; piece < end_; ++piece) {
      if (node.spans[piece].taken) {
        visit(node.spans[piece], piece);
      }
    }
  }

  std::shared_ptr<context> ctx_;
  std::vector<join_node>& nodes_;
  std::size_t first_;
  std::size_t end_;
  std::string tag_;
  std::span<const plain_bytes> plain_;
  std::vector<slab_place> plain_places_;
  slab_plan plan_;
  std::vector<std::int64_t> counted_;
  buffer slab_;
};

} // namespace saeta
