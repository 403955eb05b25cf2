// One planned transfer of columns to the host.
//
// What      The plan goes down the columns level by level: what offsets say about the children and bytes of all columns of
//           a level is read from the device in one go, and what the views of a level name takes one transfer. `fetch` brings
//           everything that was planned into one allocation; then `array` describes a column there.
// Owner     Keeps the columns until it is gone, and the allocation as long as somebody has `arena()`.
// Thread    One.
// Failure   As the staging ring and the pool of host memory (staging_ring.hpp, host_pool.hpp).
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/staging/transfer_plan.hpp"
#include "saeta/transfer/byte_view.hpp"
#include "saeta/transfer/host_array.hpp"
#include "saeta/transfer/host_window.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

class downloader {
public:
  downloader(std::shared_ptr<context> ctx, std::span<const column> columns);

  /// One allocation and one planned transfer. Once.
  void fetch();
  /// Column `number` of those given, after `fetch`.
  [[nodiscard]] host_array array(std::size_t number) const { return array_of(columns_[number]); }
  [[nodiscard]] std::shared_ptr<void> arena() const { return arena_; }

private:
  /// A buffer on its way: which plan carries it and as which range.
  struct arriving {
    bool present = false;
    storage* from = nullptr;
    std::size_t number = 0;
    std::size_t bytes = 0;
  };
  /// A column on its way; `from` is the slice of it that its parent's rows name.
  struct node {
    column from;
    row_window rows;
    child_rows pointed;                    ///< what the offsets say
    bool cut = false;                      ///< `pointed` has to be read
    bool rebase = false;                   ///< its offsets begin above 0
    std::vector<byte_window> behind_views; ///< of each buffer of bytes; empty: all of them
    std::vector<arriving> buffers;
    std::vector<node> children;
    std::vector<node> dictionary; ///< one or none
  };
  /// One plan for each storage: device addresses stand in for host ones and are never followed.
  struct one_storage {
    buffer whole;
    transfer_plan plan;
    std::size_t arena_offset = 0;
  };

  static node node_of(const column& from);
  void read_offsets(std::span<node* const> level) const;
  void read_views(std::span<node* const> level) const;
  void plan_buffers(node& of);
  static void plan_children(node& of, std::vector<node*>& next_level);
  arriving add(const buffer& window, bool changed);
  [[nodiscard]] host_array array_of(const node& planned) const;
  [[nodiscard]] std::byte* place(const arriving& a) const;

  std::shared_ptr<context> ctx_;
  std::vector<node> columns_;
  std::map<storage*, one_storage> plans_;
  std::shared_ptr<std::byte> arena_;
};

} // namespace saeta
