// Symbols: strings as small numbers, and the table that maps between the two.
//
// @code
// const std::shared_ptr<symbol_table> cities = symbol_table::make();
// const symbol lyon = cities->intern("Lyon"); // 0, the first name
// std::cout << cities->name(lyon) << '\n';    // valid as long as the table
// @endcode
//
// What      A symbol is the number of a name in a table: 0 for the first name, and one more for each new
//           name. A name is UTF-8, appears once in a table, and is never removed.
// Owner     The process has one table (`process_symbols`), which lives as long as the process. Other tables
//           are shared by their makers and the types of their columns. A table lies in ordinary host memory:
//           it belongs to no context, and no budget counts it. `byte_size` returns its size.
// Thread    Any. `find`, `name`, `lookup`, `size`, and `intern` of a known name take no lock: they never wait
//           for each other or for a writer. New names are added one at a time.
// Fork      A child keeps the names of its parent: a fork waits until no name is half added. Parent and child
//           then add names independently, so one number may mean two names.
// Failure   out_of_range for a symbol that the table does not have; overflow if the table is full, or a name
//           is too long for Arrow; invalid_argument for a name that is not UTF-8. After a failure the table
//           is unchanged, except that a bulk call keeps the names before the failed one.
#pragma once

#include "saeta/base/export.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SAETA_EXPORT saeta {

using symbol = std::uint32_t;

class symbol_table {
  struct passkey {};

public:
  static constexpr std::uint64_t most_symbols = std::uint64_t{1} << 32;
  /// Maximum bytes of a name: the offsets of Arrow's strings count no further.
  static constexpr std::size_t longest_name = 0x7FFFFFFF;

  /// An empty table of at most `limit` symbols. @throws error invalid_argument above `most_symbols`.
  [[nodiscard]] static std::shared_ptr<symbol_table> make(std::uint64_t limit = most_symbols);
  symbol_table(passkey own, std::uint64_t limit, std::uint64_t number);
  symbol_table(const symbol_table&) = delete;
  symbol_table& operator=(const symbol_table&) = delete;
  ~symbol_table();

  /// Returns the symbol of a name; adds the name if it is new.
  symbol intern(std::string_view name);
  /// Interns many names: `ids[i]` for `names[i]`. Other threads may add names in between.
  void intern(std::span<const std::string_view> names, std::span<symbol> ids);
  /// Returns the symbol of a known name.
  [[nodiscard]] std::optional<symbol> find(std::string_view name) const noexcept;

  /// The name is valid as long as the table. @throws error out_of_range naming the symbol and the size.
  [[nodiscard]] std::string_view name(symbol of) const;
  /// Like `name`, but nullopt for a symbol that the table does not have.
  [[nodiscard]] std::optional<std::string_view> lookup(symbol of) const noexcept;

  /// Number of names; all symbols are less than it.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }
  /// Bytes that the table holds.
  [[nodiscard]] std::uint64_t byte_size() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  /// 0 for the process's table. Other tables get increasing numbers, never reused.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Text that identifies this table across processes. Symbols have a meaning only together with it.
  [[nodiscard]] std::string identity() const;
  /// Returns the live table of this process with that identity, or null.
  [[nodiscard]] static std::shared_ptr<symbol_table> of_identity(std::string_view identity);

private:
  friend class symbol_tables;

  struct entry {
    const char* text = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t hash = 0;
  };
  /// Open addressing. The high 31 bits of a slot are from the hash, the low 33 are symbol + 1; 0: free.
  struct index {
    explicit index(std::size_t count) : slots(count) {}
    std::vector<std::atomic<std::uint64_t>> slots; ///< their number is a power of two
  };
  static constexpr unsigned first_segment_bits = 10;
  static constexpr std::size_t first_segment = std::size_t{1} << first_segment_bits;

  static std::uint32_t hash_of(std::string_view name) noexcept;
  [[nodiscard]] const entry& entry_of(symbol of) const noexcept;
  [[nodiscard]] std::optional<symbol> find(std::string_view name, std::uint32_t hash) const noexcept;
  symbol add(std::string_view name);
  entry* room_for(std::uint64_t place);
  const char* keep(std::string_view name);
  void grow_index();
  static void put(index& into, std::uint32_t hash, symbol of) noexcept;

  std::uint64_t limit_;
  std::uint64_t number_;
  // Read without the lock. Entries never move: each segment is twice as large as the one before.
  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::uint64_t> named_{0}; ///< entries with names; at most one more than `find` can return
  std::atomic<std::uint64_t> bytes_{0};
  std::array<std::atomic<entry*>, 24> segments_{};
  std::atomic<const index*> current_{nullptr};
  // Guarded by `adding_`:
  std::mutex adding_;
  std::vector<std::unique_ptr<entry[]>> owned_segments_;
  std::vector<std::unique_ptr<index>>
      indices_; ///< the last index is current; readers may still use earlier ones
  std::vector<std::unique_ptr<char[]>> texts_;
  std::size_t text_left_ = 0;
  char* text_at_ = nullptr;
};

/// The default table for symbols.
[[nodiscard]] const std::shared_ptr<symbol_table>& process_symbols();

} // namespace saeta
