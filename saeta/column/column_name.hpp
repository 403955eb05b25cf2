// The error text for an unknown column name.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace saeta {

/// "no column 'fair': did you mean 'fare'? The columns are 'fare', 'city'". A name is
/// suggested if it differs only in case, or in few letters for its length. At most 32 names are listed.
std::string unknown_column_text(std::string_view wanted, std::span<const std::string_view> known);

} // namespace saeta
