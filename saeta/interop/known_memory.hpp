// Memory of ours that others show by its address: the storage behind it, found as long as an export lives.
//
// What      Arrays pass through other libraries, which release them by callbacks of their own, so an address is all that comes
//           back. Whoever shows memory so holds a `known_export` meanwhile.
// Order     As of an export hold (memory/export_hold.hpp).
// Thread    Any.
// Fork      A child finds nothing of its parent's.
#pragma once

#include "saeta/memory/export_hold.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace saeta {

/// A hand-out whose storages an import finds by their addresses.
class known_export {
public:
  explicit known_export(std::span<const buffer> shown, access mode = access::read);
  known_export(const known_export&) = delete;
  known_export& operator=(const known_export&) = delete;
  ~known_export();

private:
  export_hold hold_;
};

/// The storage around these bytes of which an export by address lives; null where there is none.
std::shared_ptr<storage> find_known(const void* lowest, std::size_t bytes);

} // namespace saeta
