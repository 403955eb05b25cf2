// The handles of the C interface: which objects a C program holds, by numbers that look like addresses.
//
// What      A handle is never an address, and never given twice. So one that was released, one of another kind
//           and any other pointer are recognised without being followed.
// Owner     The table owns the objects until their handles are released. A call shares its object, which
//           therefore ends with the last call that uses it.
// Thread    Any.
// Fork      Each process has its own table.
// Failure   invalid_argument naming the argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

namespace saeta::capi {

enum class handle_kind : std::uint8_t { context, buffer, use, table, scan, writer, packed, spill, shared };

class handle_table {
public:
  /// The table of this process.
  static handle_table& get();

  [[nodiscard]] void* add(handle_kind kind, std::shared_ptr<void> object);
  /// @param name  of the argument, for the message.
  [[nodiscard]] std::shared_ptr<void> find(const void* handle, handle_kind kind, std::string_view name) const;
  /// Null is allowed. The object ends outside of the lock.
  void release(const void* handle);
  [[nodiscard]] std::size_t size() const;

private:
  struct entry {
    handle_kind kind;
    std::shared_ptr<void> object;
  };
  /// Added to the number of a handle, so that no processor takes it for an address.
  static constexpr std::uintptr_t base = std::uintptr_t{0x5ae7} << 48;

  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uintptr_t, entry> held_;
  std::uintptr_t next_ = 1;
};

} // namespace saeta::capi
