// Takes chosen rows of columns, one level of nesting after the other.
//
// A node stands for a column of the result, or for a child of one. A level has all nodes whose rows are
// known: first the columns themselves, with the children of structs and sparse unions, which have the same
// rows. What lists, dense unions and run-end encoded columns refer to has other rows. A level finds them, and
// its last act is to name the nodes of the next one.

#pragma once

#include "saeta/base/short_list.hpp"
#include "saeta/compute/selected_rows.hpp"
#include "saeta/compute/slab_plan.hpp"
#include "saeta/device/take.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// Uploads steps of `take` (device/take.hpp) and queues their kernels.
///
/// Order     On the context's work stream. The caller holds a use token over all memory that the steps name,
///           but for the sums of counted steps.
/// Failure   budget_exceeded, out_of_memory.
class take_runner {
public:
  explicit take_runner(std::shared_ptr<context> ctx) : ctx_(std::move(ctx)) {}

  /// Sets the pieces of a step. @param pieces  at least one
  void set_pieces(take_step& step, std::span<const take_source> pieces);
  /// Returns a step with only the first rows of the pieces in the whole source set. Steps that make rows
  /// start from it.
  [[nodiscard]] take_step rows_of(std::span<const std::int64_t> piece_rows);
  /// Counts steps of counted kinds, sets their sums, and waits for the results.
  [[nodiscard]] std::vector<taken_count> count(std::span<take_step> steps);
  /// @param late  steps that read what `steps` write; none without them
  void run(std::span<take_step> steps, std::span<take_step> late = {});

private:
  /// True for work that several threads of the host do.
  [[nodiscard]] bool is_shared(std::span<const take_step> steps) const;
  void count_on_host(std::span<const take_step> steps, const take_source* sources, std::int64_t* sums,
                     taken_count* counts) const;
  void run_on_host(std::span<const take_step> steps, std::span<const take_step> late,
                   const take_source* sources) const;
  void queue(std::span<take_step> steps, const take_source* sources) const;

  std::shared_ptr<context> ctx_;
  std::vector<take_source> sources_; ///< of all steps, as the steps number them
  std::vector<buffer> sums_;
};

/// The rows of one source column from which rows are taken.
struct taken_piece {
  const column* of = nullptr;
  std::int64_t first = 0; ///< row in its buffers, including the column's offset
  std::int64_t rows = 0;
};

struct taken_node {
  const data_type* type = nullptr;
  short_list<taken_piece, 1> pieces; ///< at least one
  std::shared_ptr<const selected_rows> rows;
  std::int64_t length = 0; ///< of the result
  /// For a run-end encoded column whose runs are found: `rows` are rows of the run values.
  bool has_runs = false;
  bool owns_bytes = false; ///< of views: the result gets the bytes that its rows refer to, and no others
  // The result:
  short_list<buffer, 3> buffers;
  buffer run_ends;
  std::vector<taken_node> children; ///< for run-end encoded columns, only the values
};

/// @param owns_bytes  of the views in it
taken_node node_of(std::span<const column> pieces, std::shared_ptr<const selected_rows> rows,
                   bool owns_bytes = false);
/// The result. @param ctx  as for the level that made it
column column_of(const std::shared_ptr<context>& ctx, const taken_node& node);

class take_level {
public:
  explicit take_level(std::shared_ptr<context> ctx) : ctx_(std::move(ctx)), runner_(ctx_) {}

  void add(taken_node& node);
  /// Counts, allocates the buffers of the nodes, and queues the kernels that fill them.
  /// @return the nodes of the next level
  /// @throws error overflow if offsets can't count what the rows refer to; format for rows that refer to
  /// something outside of their column
  [[nodiscard]] std::vector<taken_node*> run();

private:
  /// The addresses and sizes of the buffers behind views, for kernels.
  struct view_buffers {
    view_buffers(const std::shared_ptr<context>& ctx, const taken_node& node);

    std::vector<std::int64_t> numbers; ///< the sizes of the buffers of each piece, and their addresses
    device_copy<std::int64_t> uploaded;
  };
  struct placed {
    taken_node* node = nullptr;
    std::shared_ptr<const view_buffers> behind; ///< null unless the node owns bytes
    buffer starts;                              ///< where the bytes of each row begin
    slab_place bytes;
    short_list<slab_place, 3> buffers;
    slab_place run_ends;
    std::size_t first_counted = 0; ///< its steps in `counted_`
    std::size_t counted = 0;
    std::vector<std::shared_ptr<selected_rows>> made; ///< rows of its children
  };

  take_step step_of(take_kind kind, const placed& of, std::int32_t width) const;
  /// @param child  the child that the rows refer to
  void set_sources(take_step& step, const placed& of, std::size_t child = 0);
  void add_counted(placed& made, take_kind kind, std::int32_t width);
  [[nodiscard]] std::int64_t total_of(const placed& of, std::size_t index = 0) const;
  void require_counts(const placed& of) const;
  void lay_out(placed& made);
  void make_rows(placed& made, std::int64_t rows, bool nullable);
  [[nodiscard]] std::vector<use> uses_of_rows() const;
  [[nodiscard]] std::vector<use> uses() const;
  void add_steps(placed& of);
  void add_values(const placed& of, std::size_t index);
  void add_late(take_kind kind, const placed& of, void* target);
  void add_view_bytes(const placed& of);
  void queue();
  void plan_padding();
  void clear_padding();
  void name_children(placed& of);
  [[nodiscard]] void* address_of(const slab_place& place) const;
  [[nodiscard]] buffer in_slab(const slab_place& place) const;
  [[nodiscard]] std::vector<take_step> grouped_values() const;

  std::shared_ptr<context> ctx_;
  take_runner runner_;
  slab_plan plan_{"bytes of taken rows"};
  buffer slab_;
  std::vector<placed> placed_;
  std::vector<take_step> counted_;
  std::vector<taken_count> counts_;
  std::map<const std::int64_t*, std::vector<take_step>> values_; ///< by the rows that they read
  std::vector<take_step> steps_;
  std::vector<take_step> late_; ///< steps that read new offsets
  std::vector<taken_node*> next_;
};

} // namespace saeta
