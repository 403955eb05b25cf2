// Code that the imports of single batches and of streams share.
#pragma once

#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"

namespace saeta {

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

} // namespace saeta
