// A fixture for tests with columns imported from Arrow arrays.
#pragma once

#include "conformance/harness/context_test.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"

namespace saeta::conformance {

class arrow_test : public context_test {
protected:
  [[nodiscard]] column imported(const support::shared_array& source,
                                const import_options& options = {}) const {
    arrow_array given = support::to_c(source);
    return import_column(ctx(), {"x", source->type, true, {}}, given.get(), options);
  }
};

} // namespace saeta::conformance
