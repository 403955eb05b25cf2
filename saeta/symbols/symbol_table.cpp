#include "saeta/symbols/symbol_table.hpp"

#include "saeta/base/process.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include <pthread.h>
#include <unistd.h>

namespace saeta {
namespace {

constexpr std::size_t first_slots = 1024;
constexpr std::size_t text_block = 64 * 1024;
constexpr unsigned symbol_bits = 33; ///< low bits of a slot: 2^32 symbols, and one value for a free slot

constexpr std::uint64_t slot_of(std::uint32_t hash, symbol of) noexcept {
  return std::uint64_t{hash} >> 1 << symbol_bits | (std::uint64_t{of} + 1);
}
constexpr bool same_hash(std::uint64_t slot, std::uint32_t hash) noexcept {
  return slot >> symbol_bits == std::uint64_t{hash} >> 1;
}
constexpr symbol symbol_in(std::uint64_t slot) noexcept {
  return static_cast<symbol>((slot & ((std::uint64_t{1} << symbol_bits) - 1)) - 1);
}

/// Segment and position of an entry: the first segment has 1024 entries, and each next one twice as many.
constexpr std::pair<std::size_t, std::size_t> place_of(std::uint64_t at, std::size_t first,
                                                       unsigned bits) noexcept {
  const std::uint64_t shifted = at + first;
  const auto segment = static_cast<unsigned>(std::bit_width(shifted)) - bits - 1;
  return {segment, static_cast<std::size_t>(shifted - (std::uint64_t{first} << segment))};
}

} // namespace

/// All tables of the process, to find them by identity and to lock them for a fork. Never destroyed.
class SAETA_LOCAL symbol_tables {
public:
  static symbol_tables& all() {
    static auto* const tables = new symbol_tables;
    return *tables;
  }

  std::shared_ptr<symbol_table> add(std::uint64_t limit) {
    const std::lock_guard lock(mutex_);
    auto table = std::make_shared<symbol_table>(symbol_table::passkey{}, limit, next_);
    known_.emplace(next_++, table);
    return table;
  }
  void remove(std::uint64_t number) noexcept {
    const std::lock_guard lock(mutex_);
    known_.erase(number);
  }
  /// Null if no live table has that number.
  std::shared_ptr<symbol_table> find(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto entry = known_.find(number);
    return entry == known_.end() ? nullptr : entry->second.lock();
  }
  /// Distinguishes this process's tables from those of other processes, its parent included.
  [[nodiscard]] std::string prefix() const {
    return concat(hexadecimal(random_), "-", ::getpid(), "-", fork_generation(), "-");
  }

private:
  symbol_tables() : random_(std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()) {
    ::pthread_atfork([] { all().hold(); }, [] { all().release(); }, [] { all().release(); });
  }

  /// Blocks all tables until `release`: a child must get no half-added name and no lock that stays locked.
  void hold() {
    mutex_.lock();
    for (const auto& [number, each] : known_) {
      if (auto living = each.lock()) {
        living->adding_.lock();
        held_.push_back(std::move(living));
      }
    }
  }
  void release() {
    std::vector<std::shared_ptr<symbol_table>> held;
    held.swap(held_);
    for (const auto& table : held) {
      table->adding_.unlock();
    }
    mutex_.unlock(); // before `held` ends: it may own the last reference to a table, whose end takes the lock
  }

  std::uint64_t random_;
  std::mutex mutex_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::weak_ptr<symbol_table>> known_;
  std::vector<std::shared_ptr<symbol_table>> held_;
};

std::shared_ptr<symbol_table> symbol_table::make(std::uint64_t limit) {
  if (limit > most_symbols) {
    throw error(errc::invalid_argument,
                concat("the limit of a symbol table is ", limit, " symbols, expected at most ", most_symbols,
                       ": symbols are 32-bit numbers"));
  }
  static_cast<void>(process_symbols()); // takes number 0 first
  return symbol_tables::all().add(limit);
}

const std::shared_ptr<symbol_table>& process_symbols() {
  static const auto* const table =
      new std::shared_ptr<symbol_table>(symbol_tables::all().add(symbol_table::most_symbols));
  return *table;
}

symbol_table::symbol_table(passkey, std::uint64_t limit, std::uint64_t number)
    : limit_(limit), number_(number) {}

symbol_table::~symbol_table() { symbol_tables::all().remove(number_); }

std::string symbol_table::identity() const { return concat(symbol_tables::all().prefix(), number_); }

std::shared_ptr<symbol_table> symbol_table::of_identity(std::string_view identity) {
  const std::string own = symbol_tables::all().prefix();
  if (!identity.starts_with(own)) {
    return nullptr;
  }
  std::uint64_t number = 0;
  const std::string_view digits = identity.substr(own.size());
  for (const char digit : digits) {
    number = 10 * number + static_cast<std::uint64_t>(digit - '0');
  }
  auto entry = symbol_tables::all().find(number);
  return entry != nullptr && entry->identity() == identity ? entry : nullptr;
}

std::uint32_t symbol_table::hash_of(std::string_view name) noexcept {
  const std::uint64_t whole = std::hash<std::string_view>{}(name);
  return static_cast<std::uint32_t>(whole ^ whole >> 32);
}

const symbol_table::entry& symbol_table::entry_of(symbol of) const noexcept {
  const auto [segment, place] = place_of(of, first_segment, first_segment_bits);
  return segments_[segment].load(std::memory_order_acquire)[place];
}

std::optional<symbol> symbol_table::find(std::string_view name, std::uint32_t hash) const noexcept {
  const index* const now = current_.load(std::memory_order_acquire);
  if (now == nullptr) {
    return std::nullopt;
  }
  const std::size_t mask = now->slots.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const std::uint64_t slot = now->slots[at].load(std::memory_order_acquire);
    if (slot == 0) {
      return std::nullopt;
    }
    if (same_hash(slot, hash)) {
      const entry& there = entry_of(symbol_in(slot));
      if (std::string_view(there.text, there.bytes) == name) {
        return symbol_in(slot);
      }
    }
  }
}

std::optional<symbol> symbol_table::find(std::string_view name) const noexcept {
  return name.size() > longest_name ? std::nullopt : find(name, hash_of(name));
}

symbol symbol_table::intern(std::string_view name) {
  if (const auto known = find(name)) {
    return *known;
  }
  const std::lock_guard lock(adding_);
  return add(name);
}

void symbol_table::intern(std::span<const std::string_view> names, std::span<symbol> ids) {
  constexpr std::size_t most_in_a_row = 1024; // then other writers get a turn
  if (names.size() != ids.size()) {
    throw error(errc::invalid_argument, concat("can't intern ", names.size(), " names into ", ids.size(),
                                               " symbols: the numbers differ"));
  }
  std::unique_lock lock(adding_, std::defer_lock);
  std::size_t added = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (const auto known = find(names[i])) {
      ids[i] = *known;
      continue;
    }
    if (!lock.owns_lock()) {
      lock.lock();
    }
    ids[i] = add(names[i]);
    if (++added % most_in_a_row == 0) {
      lock.unlock();
    }
  }
}

std::string_view symbol_table::name(symbol of) const {
  if (const auto known = lookup(of)) {
    return *known;
  }
  throw error(errc::out_of_range,
              concat("symbol ", of, " is not in the symbol table, which has ", size(), " names"));
}

std::optional<std::string_view> symbol_table::lookup(symbol of) const noexcept {
  if (of >= named_.load(std::memory_order_acquire)) {
    return std::nullopt;
  }
  const entry& there = entry_of(of);
  return std::string_view(there.text, there.bytes);
}

/// Call with the lock held. All steps that may throw come before the name becomes visible.
symbol symbol_table::add(std::string_view name) {
  if (name.size() > longest_name) {
    throw error(errc::overflow, concat("the name of a symbol has ", name.size(), " bytes, at most ",
                                       longest_name, " are supported"));
  }
  const std::uint32_t hash = hash_of(name);
  if (const auto known = find(name, hash)) { // another thread added it meanwhile
    return *known;
  }
  const std::uint64_t place = size_.load(std::memory_order_relaxed);
  if (!is_utf8(name)) {
    throw error(errc::invalid_argument, concat("a symbol's name is not UTF-8: '", name, "'"));
  }
  if (place >= limit_) {
    throw error(errc::overflow, concat("the symbol table is full: it has ", place,
                                       " names, which is its limit, and '", name.substr(0, 80), "' is new"));
  }
  if (indices_.empty() || 2 * (place + 1) > indices_.back()->slots.size()) {
    grow_index();
  }
  entry& target = *room_for(place);
  target = {keep(name), static_cast<std::uint32_t>(name.size()), hash};
  const auto result = static_cast<symbol>(place);
  // A reader that finds the symbol can get its name at once, and one that sees the size can find all names.
  named_.store(place + 1, std::memory_order_release);
  put(*indices_.back(), hash, result);
  size_.store(place + 1, std::memory_order_release);
  return result;
}

symbol_table::entry* symbol_table::room_for(std::uint64_t at) {
  const auto [segment, place] = place_of(at, first_segment, first_segment_bits);
  if (segment == owned_segments_.size()) {
    const std::size_t entries = first_segment << segment;
    owned_segments_.push_back(std::make_unique<entry[]>(entries));
    segments_[segment].store(owned_segments_.back().get(), std::memory_order_release);
    bytes_.fetch_add(entries * sizeof(entry), std::memory_order_relaxed);
  }
  return owned_segments_[segment].get() + place;
}

const char* symbol_table::keep(std::string_view name) {
  if (name.size() > text_left_) {
    const std::size_t bytes = std::max(text_block, name.size());
    texts_.push_back(std::make_unique_for_overwrite<char[]>(bytes));
    text_at_ = texts_.back().get();
    text_left_ = bytes;
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  char* const kept = text_at_;
  if (!name.empty()) {
    std::memcpy(kept, name.data(), name.size());
  }
  text_at_ += name.size();
  text_left_ -= name.size();
  return kept;
}

/// Doubles the slots. Readers of the old slots still find the names that were there when they began.
void symbol_table::grow_index() {
  const std::size_t slots = indices_.empty() ? first_slots : 2 * indices_.back()->slots.size();
  indices_.push_back(std::make_unique<index>(slots));
  index& index = *indices_.back();
  for (std::uint64_t i = 0; i < size_.load(std::memory_order_relaxed); ++i) {
    put(index, entry_of(static_cast<symbol>(i)).hash, static_cast<symbol>(i));
  }
  bytes_.fetch_add(slots * sizeof(std::uint64_t), std::memory_order_relaxed);
  current_.store(&index, std::memory_order_release);
}

void symbol_table::put(index& into, std::uint32_t hash, symbol of) noexcept {
  const std::size_t mask = into.slots.size() - 1;
  std::size_t at = hash & mask;
  while (into.slots[at].load(std::memory_order_relaxed) != 0) {
    at = (at + 1) & mask;
  }
  into.slots[at].store(slot_of(hash, of), std::memory_order_release);
}

} // namespace saeta
