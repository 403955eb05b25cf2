// One planned transfer of columns to the host.
//
// What      The plan takes the windows that the rows refer to (transfer/column_window.hpp). `fetch` brings
//           everything planned into one allocation. `array` then describes a column there.
// Owner     Keeps the columns until it is destroyed. `arena()` keeps the allocation alive.
// Thread    One.
// Failure   As for the ring and the pool of host memory (staging/staging_ring.hpp, staging/host_pool.hpp).
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/staging/transfer_plan.hpp"
#include "saeta/transfer/column_window.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

class downloader {
public:
  downloader(std::shared_ptr<context> ctx, std::span<const column> columns);

  /// Makes one allocation and one planned transfer. Call it once.
  void fetch();
  /// Column `number` of the given columns, after `fetch`.
  [[nodiscard]] host_array array(std::size_t number) const { return array_of(columns_[number]); }
  [[nodiscard]] std::shared_ptr<void> arena() const { return arena_; }

private:
  /// A buffer in the transfer: the plan that carries it, and the number of its range there.
  struct arriving {
    bool present = false;
    storage* from = nullptr;
    std::size_t number = 0;
    std::size_t bytes = 0;
  };
  struct node {
    const column_window* of = nullptr;
    std::vector<arriving> buffers;
    std::vector<node> children;
    std::vector<node> dictionary; ///< one or none
  };
  /// One plan for each storage. Its ranges are device addresses and are never followed.
  struct one_storage {
    buffer whole;
    transfer_plan plan;
    std::size_t arena_offset = 0;
  };

  node plan(const column_window& of);
  arriving add(const buffer& window, bool changed);
  [[nodiscard]] host_array array_of(const node& planned) const;
  [[nodiscard]] std::byte* place(const arriving& a) const;

  std::shared_ptr<context> ctx_;
  std::vector<column_window> windows_; ///< of the columns
  std::vector<node> columns_;
  std::map<storage*, one_storage> plans_;
  std::shared_ptr<std::byte> arena_;
};

} // namespace saeta
