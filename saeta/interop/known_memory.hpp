// Finds our own memory by its address: the storage that contains it, as long as an export of it lives.
//
// @code
// const void* address = nullptr;
// {
//   const known_export shown(std::span(&bytes, 1)); // another library gets the address
//   const use_token token(stream, {reads(bytes)});
//   address = token.span<const std::byte>(bytes).data();
//   const std::shared_ptr<storage> own = find_known(address, bytes.size()); // the storage of `bytes`
// }
// const std::shared_ptr<storage> none = find_known(address, bytes.size()); // null: the export has ended
// @endcode
//
// What      Arrays pass through other libraries, which release them with callbacks of their own, so only the
//           address comes back. Each export that can come back this way holds a `known_export`.
// Order     As for an export hold (memory/export_hold.hpp).
// Thread    Any.
// Fork      A child finds no memory of its parent.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/memory/export_hold.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace SAETA_EXPORT saeta {

/// An export hold whose storages an import can find by their addresses.
class known_export {
public:
  explicit known_export(std::span<const buffer> shown, access mode = access::read);
  known_export(const known_export&) = delete;
  known_export& operator=(const known_export&) = delete;
  ~known_export();

private:
  export_hold hold_;
};

/// The storage that contains these bytes and has a live export by address; null if there is none.
[[nodiscard]] std::shared_ptr<storage> find_known(const void* lowest, std::size_t bytes);

} // namespace saeta
