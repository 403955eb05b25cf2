// What imports of single batches and of streams share.
#pragma once

#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"

namespace saeta {

/// An imported batch, and the host memory it was made of: valid while `view.keepalive` is shared.
struct placed_batch {
  batch columns;
  host_batch view;
};

/// Arrays of the fields, whose memory `view.keepalive` keeps.
placed_batch place_view(const std::shared_ptr<context>& ctx, host_batch view, std::span<const field> fields,
                        dictionary_cache& dictionaries, const import_options& options);

/// Takes `source` on success only.
placed_batch place_batch(const std::shared_ptr<context>& ctx, const schema& fields, ArrowArray& source,
                         dictionary_cache& dictionaries, const import_options& options);

/// An array that is no record batch as a batch of one column.
placed_batch place_column(const std::shared_ptr<context>& ctx, const field& described, ArrowArray& source,
                          dictionary_cache& dictionaries, const import_options& options);

/// The same of arrays that may be on a device.
placed_batch place_device_batch(const std::shared_ptr<context>& ctx, const schema& fields,
                                ArrowDeviceArray& source, dictionary_cache& dictionaries,
                                const import_options& options);
placed_batch place_device_column(const std::shared_ptr<context>& ctx, const field& described,
                                 ArrowDeviceArray& source, dictionary_cache& dictionaries,
                                 const import_options& options);

} // namespace saeta
