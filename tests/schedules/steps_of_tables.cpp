// Steps with spillable tables, which are spilled by a step or because the budget is full.
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/spill/spill.hpp"
#include "schedules/random_program.hpp"

#include <memory>
#include <utility>

namespace saeta::schedules {
namespace {

constexpr std::size_t most_tables = 40; // together larger than the budget

/// The handle of a spillable table, and the bytes that its only column must have.
struct kept_table {
  spill_handle handle;
  bytes expected;
  site* place;
  bool certain;
};

table table_over(const site& place, const buffer& values) {
  const data_type type(type_id::uint8);
  const auto rows = static_cast<std::int64_t>(values.size());
  batch made{rows, {}};
  made.columns.push_back(
      column::make(place.ctx, {.type = type, .length = rows, .null_count = 0, .buffers = {{}, values}}));
  schema fields;
  fields.fields.push_back({"bytes", type, false, {}});
  return table::make(place.ctx, std::move(fields), {std::move(made)});
}

} // namespace

struct random_program::kept_tables {
  std::vector<std::unique_ptr<kept_table>> all;
  std::vector<spill_use> open; ///< uses of tables, which can't be spilled meanwhile
};

void random_program::spill() {
  if (tables_ == nullptr) {
    tables_ = std::make_shared<kept_tables>();
  }
  if (tables_->all.empty() || (tables_->all.size() < most_tables && draw_.chance(60))) {
    return keep();
  }
  if (!tables_->open.empty() && draw_.chance(50)) {
    return tables_->open.pop_back();
  }
  const std::size_t number = draw_.below(tables_->all.size());
  if (draw_.chance(10)) {
    tables_->all.erase(tables_->all.begin() + static_cast<std::ptrdiff_t>(number));
  } else if (draw_.chance(50)) {
    use_kept(number);
  } else {
    try {
      guarded([&] { tables_->all[number]->handle.spill(spill_tier::pinned); });
    } catch (const error& e) {
      expect_code(e, errc::busy); // a use is open
    }
  }
}

void random_program::keep() {
  site& place = any_site();
  const auto value = static_cast<std::uint8_t>(draw_.next());
  try {
    buffer memory = buffer::allocate(place.ctx, table_bytes, any_stream(place), "table");
    bool written = false;
    guarded([&] {
      fill(place, memory, 0, table_bytes, any_stream(place), value);
      written = true;
    });
    const table whole = table_over(place, memory);
    memory = {};
    guarded([&] {
      tables_->all.push_back(std::make_unique<kept_table>(
          kept_table{spillable(place.ctx, whole, static_cast<int>(draw_.below(2))), bytes(table_bytes, value),
                     &place, written}));
    });
  } catch (const error& e) {
    expect_code(e, errc::budget_exceeded);
  }
}

void random_program::use_kept(std::size_t number) {
  const kept_table& kept = *tables_->all[number];
  const site& place = *kept.place;
  try {
    const std::shared_ptr<std::uint8_t> arrived = landing_of(place, kept.expected.size());
    const stream_ref stream = any_stream(place);
    const bool done = guarded([&] {
      spill_use used = kept.handle.use(place.ctx);
      const buffer values = used.value().batches().front().columns.front().values();
      use_token token(stream, {reads(values)});
      place.ctx->copies().copy(arrived.get(), token.span<const std::uint8_t>(values).data(),
                               kept.expected.size(), copy_kind::device_to_host, stream);
      token.finish();
      if (tables_->open.size() < 2 && draw_.chance(30)) {
        tables_->open.push_back(std::move(used));
      }
    });
    if (done && kept.certain) {
      landings_.push_back({arrived, kept.expected});
    }
  } catch (const error& e) {
    expect_code(e, errc::budget_exceeded);
  }
}

void random_program::end_tables() {
  for (std::size_t i = 0; tables_ != nullptr && i < tables_->all.size(); ++i) {
    tables_->open.clear(); // otherwise the next table may not fit
    use_kept(i);
  }
  tables_.reset();
}

} // namespace saeta::schedules
