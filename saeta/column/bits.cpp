#include "saeta/column/bits.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/memory/use_token.hpp"

namespace saeta {
namespace {

/// Outputs of a conversion: the values and, if the source has nulls, a validity and its null count.
struct target {
  buffer values;
  buffer validity;
  buffer null_count; ///< absent if the source knows its null count
};

buffer allocate_like(const column& source, std::size_t bytes) {
  return buffer::allocate(source.ctx(), bytes, source.ctx()->work_stream(), source.values().owner()->tag());
}

target make_target(const column& source, std::size_t value_bytes) {
  target target;
  target.values = allocate_like(source, value_bytes);
  if (source.validity().present() && source.known_null_count() != 0) {
    target.validity = allocate_like(source, bitmap_bytes(source.length()));
    if (source.known_null_count() == column::unknown_nulls) {
      target.null_count = allocate_like(source, sizeof(std::int64_t));
    }
  }
  return target;
}

/// Realigns the validity to bit 0. Returns the null count, counted in the same pass if it was unknown.
std::int64_t carry_validity(const column& source, const target& to, const use_token& token) {
  if (!to.validity.present()) {
    return 0;
  }
  auto* const counted = token.span<std::int64_t>(to.null_count).data();
  source.ctx()->kernels().copy_bitmap(
      token.stream().native_handle(), token.span<const std::uint8_t>(source.validity()).data(),
      source.offset(), source.length(), token.span<std::uint8_t>(to.validity).data(), counted);
  std::int64_t nulls = source.known_null_count();
  if (counted != nullptr) {
    source.ctx()->copies().read_scalar(&nulls, counted, sizeof nulls, token.stream());
  }
  return nulls;
}

/// Runs `convert(token, target)` under a use token, and makes a column of the result.
template <class Convert>
column convert_booleans(const column& source, const data_type& type, std::size_t value_bytes,
                        Convert convert) {
  if (source.length() == 0) {
    return column::make(source.ctx(), {type, 0, 0, 0, {buffer(), buffer()}, nullptr});
  }
  const target to = make_target(source, value_bytes);
  use_token token(source.ctx()->work_stream(),
                  {reads(source.values()), reads(source.validity()), writes(to.values), writes(to.validity),
                   writes(to.null_count)});
  convert(token, to);
  const std::int64_t nulls = carry_validity(source, to, token);
  token.finish();
  return column::make(source.ctx(), {type, source.length(), 0, nulls, {to.validity, to.values}, nullptr});
}

} // namespace

column pack_bool(const column& bytes) {
  if (bytes.type().id() != type_id::int8 && bytes.type().id() != type_id::uint8) {
    throw error(errc::type_mismatch, concat("can't pack a column of ", bytes.type().name(),
                                            " to booleans of one bit: expected bool8, int8 or uint8"));
  }
  return convert_booleans(bytes, data_type(type_id::boolean), bitmap_bytes(bytes.length()),
                          [&](const use_token& token, const target& to) {
                            bytes.ctx()->kernels().pack_bool(
                                token.stream().native_handle(),
                                token.span<const std::uint8_t>(bytes.values()).data() + bytes.offset(),
                                bytes.length(), token.span<std::uint8_t>(to.values).data());
                          });
}

column unpack_bool(const column& bits) {
  if (bits.type().id() != type_id::boolean) {
    throw error(errc::type_mismatch, concat("can't unpack a column of ", bits.type().name(),
                                            " to booleans of one byte: expected bool"));
  }
  const auto rows = static_cast<std::size_t>(bits.length());
  const std::size_t padded = round_up(rows, std::size_t{64});
  return convert_booleans(bits, data_type::bool8(), padded, [&](const use_token& token, const target& to) {
    auto* const bytes = token.span<std::uint8_t>(to.values).data();
    bits.ctx()->kernels().unpack_bool(token.stream().native_handle(),
                                      token.span<const std::uint8_t>(bits.values()).data(), bits.offset(),
                                      bits.length(), bytes);
    bits.ctx()->copies().fill(bytes + rows, 0, padded - rows, token.stream());
  });
}

column relabel_bool8(const column& bytes, const data_type& type) {
  if (!bytes.type().is_bool8() || !type.is_bool8()) {
    throw error(errc::type_mismatch, concat("can't view a column of ", bytes.type().name(), " as ",
                                            type.name(), ": both must be bool8"));
  }
  return relabel(bytes, type);
}

} // namespace saeta
