// The parts of the class Column, one function each.
#pragma once

#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"

namespace saeta::py {

using column_class = nb::class_<column_object>;

/// Conversions: booleans in both forms, and objects of other libraries.
void bind_conversions(column_class& c);
/// DLPack, the CUDA Array Interface, and arrays of other libraries.
void bind_tensors(column_class& c);
/// Rows that are chosen, converted, filled or moved.
void bind_rows(column_class& c);
/// DLPack's C exchange API.
void bind_exchange_api(column_class& c);
/// The Arrow PyCapsule interface.
void bind_protocols(column_class& c);

} // namespace saeta::py
