// Symbols: strings as small numbers, and the table that turns one into the other.
//
// What      A symbol is the number of a name in a table: 0 for the first name, then one more for each new one. A name is UTF-8, is
//           in a table once, and is never taken out.
// Owner     The process has one table (`process_symbols`), which lives as long as it does. Others belong to who made them and to
//           the types of their columns. The memory of a table is ordinary memory of the host: it belongs to no context, and no
//           budget counts it. `byte_size` says how much it is.
// Thread    Any. `find`, `name`, `lookup`, `size` and `intern` of a name that is there take no lock: they never wait for each other
//           or for a writer. New names are added one at a time.
// Fork      A child goes on with the names of its parent: a fork waits until no name is half added. New names of the two are
//           each its own, so that from then on one number may be two names.
// Failure   out_of_range for a symbol that the table does not have; overflow where the table is full, or a name too long for Arrow;
//           invalid_argument for a name that is not UTF-8. After a failure the table is as it was, but for names of a
//           bulk that came before.
#pragma once

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

namespace saeta {

using symbol = std::uint32_t;

class symbol_table {
  struct passkey {};

public:
  static constexpr std::uint64_t most_symbols = std::uint64_t{1} << 32;
  /// Bytes of the longest name: offsets of Arrow's strings count no further.
  static constexpr std::size_t longest_name = 0x7FFFFFFF;

  /// An empty table of at most `limit` symbols. @throws error invalid_argument above `most_symbols`.
  static std::shared_ptr<symbol_table> make(std::uint64_t limit = most_symbols);
  symbol_table(passkey, std::uint64_t limit, std::uint64_t number);
  symbol_table(const symbol_table&) = delete;
  symbol_table& operator=(const symbol_table&) = delete;
  ~symbol_table();

  /// The symbol of a name, which is added where it is new.
  symbol intern(std::string_view name);
  /// The symbols of many names: `ids[i]` of `names[i]`. Other threads may add names in between.
  void intern(std::span<const std::string_view> names, std::span<symbol> ids);
  /// The symbol of a name that is there.
  [[nodiscard]] std::optional<symbol> find(std::string_view name) const noexcept;

  /// Valid as long as the table. @throws error out_of_range naming the symbol and the size.
  [[nodiscard]] std::string_view name(symbol of) const;
  /// The same, nothing for a symbol that the table does not have.
  [[nodiscard]] std::optional<std::string_view> lookup(symbol of) const noexcept;

  /// All symbols are below it.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }
  /// Bytes that the table holds.
  [[nodiscard]] std::uint64_t byte_size() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  /// 0 is the process's; others are numbered as they are made, and no number comes again.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Text that no other table has, of this process or another: symbols mean something beside it alone.
  [[nodiscard]] std::string identity() const;
  /// The table of that identity, where it is one of this process that lives.
  static std::shared_ptr<symbol_table> of_identity(std::string_view identity);

private:
  friend class symbol_tables;

  struct entry {
    const char* text = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t hash = 0;
  };
  /// Open addressing. A slot has 31 bits of the hash above, and the symbol plus one below; 0 is free.
  struct index {
    explicit index(std::size_t count) : slots(count) {}
    std::vector<std::atomic<std::uint64_t>> slots; ///< a power of two
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
  // What readers see. Entries never move: segment s holds twice as many as the one before.
  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::uint64_t> named_{0}; ///< entries that have their names; at most one more than can be found
  std::atomic<std::uint64_t> bytes_{0};
  std::array<std::atomic<entry*>, 24> segments_{};
  std::atomic<const index*> current_{nullptr};
  // Of the writer:
  std::mutex adding_;
  std::vector<std::unique_ptr<entry[]>> owned_segments_;
  std::vector<std::unique_ptr<index>>
      indices_; ///< the last is the current one; readers may still be in those before
  std::vector<std::unique_ptr<char[]>> texts_;
  std::size_t text_left_ = 0;
  char* text_at_ = nullptr;
};

/// The table that symbols are of where nobody names another.
const std::shared_ptr<symbol_table>& process_symbols();

} // namespace saeta
