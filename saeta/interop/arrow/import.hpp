// Code that the imports of single batches and of streams share.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"

#include <memory>
#include <utility>

namespace SAETA_EXPORT saeta {

/// An imported batch, and a view of the memory that it was made from. The view is valid while
/// `view.keepalive` is shared.
struct placed_batch {
  batch columns;
  host_batch view;
};

/// Imports the arrays of the fields. `view.keepalive` keeps their memory.
placed_batch place_view(const std::shared_ptr<context>& ctx, host_batch view, std::span<const field> fields,
                        dictionary_cache& dictionaries, const import_options& options);

/// Imports a record batch. Takes `source` on success only.
placed_batch place_batch(const std::shared_ptr<context>& ctx, const schema& fields, ArrowArray& source,
                         dictionary_cache& dictionaries, const import_options& options);

/// Imports a single array as a batch of one column. Takes `source` on success only.
placed_batch place_column(const std::shared_ptr<context>& ctx, const field& described, ArrowArray& source,
                          dictionary_cache& dictionaries, const import_options& options);

/// The same for arrays that may be on a device.
placed_batch place_device_batch(const std::shared_ptr<context>& ctx, const schema& fields,
                                ArrowDeviceArray& source, dictionary_cache& dictionaries,
                                const import_options& options);
placed_batch place_device_column(const std::shared_ptr<context>& ctx, const field& described,
                                 ArrowDeviceArray& source, dictionary_cache& dictionaries,
                                 const import_options& options);

/// A cached dictionary keeps its batch alive, so the cache holds only the dictionaries of the previous batch.
///
/// @code
/// rolling_dictionaries known;
/// for (ArrowArray& source : received) { // batches of one stream
///   const placed_batch placed = place_batch(ctx, orders.fields(), source, known.dictionaries(), {});
///   known.roll_to(placed); // the next batch may have the same dictionaries: they are not uploaded again
/// }
/// @endcode
class rolling_dictionaries {
public:
  [[nodiscard]] dictionary_cache& dictionaries() noexcept { return known_; }

  void roll_to(const placed_batch& placed) {
    dictionary_cache fresh;
    for (std::size_t i = 0; i < placed.view.arrays.size(); ++i) {
      remember(placed.view.arrays[i], placed.columns.columns[i], placed.view.keepalive, fresh);
    }
    known_ = std::move(fresh);
  }

private:
  /// Remembers the dictionaries of an array, of its children and of its dictionary.
  void remember(const host_array& seen, const column& made, const std::shared_ptr<void>& source,
                dictionary_cache& known) const {
    for (std::size_t i = 0; i < seen.children.size(); ++i) {
      remember(seen.children[i], made.children()[i], source, known);
    }
    if (seen.dictionary == nullptr) {
      return;
    }
    if (made.dictionary() == nullptr) { // converted to symbols
      known.remember(*seen.dictionary, known_.find_symbols(*seen.dictionary), source);
    } else {
      known.remember(*seen.dictionary, std::make_shared<const column>(*made.dictionary()), source);
      remember(*seen.dictionary, *made.dictionary(), source, known);
    }
  }

  dictionary_cache known_;
};

} // namespace saeta
