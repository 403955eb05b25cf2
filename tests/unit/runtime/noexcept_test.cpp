// Calls while allocations fail: noexcept functions do not end the process, and others are not declared
// noexcept.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/report.hpp"
#include "saeta/budget/reservation.hpp"
#include "saeta/column/number_kind.hpp"
#include "saeta/column/table.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/compute/slab_plan.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/lent_memory.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/symbols/symbols.hpp"
#include "saeta/transfer/host_array.hpp"
#include "support/tables.hpp"
#include "unit/observe/counted_new.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <vector>

namespace saeta {
namespace {

/// An upper bound for the number of allocations in any of the calls.
constexpr std::size_t most_allocations = 24;

/// Calls `act` with a new object of `make` for each n, with all allocations after the n-th failing.
template <class Make, class Act>
void expect_survival(const Make& make, const Act& act) {
  for (std::size_t successes = 0; successes < most_allocations; ++successes) {
    auto state = make();
    const unit::failing_new fails(successes);
    act(state);
  }
}

class sink_of_events final : public log_sink {
public:
  void write(const log_record& record) override {
    static_cast<void>(std::string(100, *record.outcome.data()));
  }
  void flush() override { static_cast<void>(std::make_unique<std::vector<int>>(9)); }
};

/// Runs on the host, where work finishes at once, and on a simulated device, where it is pending.
class calls_without_memory : public ::testing::TestWithParam<bool> {
protected:
  calls_without_memory() : before_(set_report_sink([](std::string_view, std::string_view) noexcept {})) {
    ctx_->reports().log()->attach(std::make_shared<sink_of_events>());
  }
  ~calls_without_memory() override { set_report_sink(before_); }

  static std::shared_ptr<backend> make_device() {
    if (GetParam()) {
      return sim::device::create({.seed = 3, .run_percent = 0});
    }
    return make_host_backend();
  }
  /// Returns a buffer with pending work on several streams.
  [[nodiscard]] buffer used() const {
    const buffer made = buffer::allocate(ctx_, 4096, ctx_->work_stream(), "used");
    for (const stream& each : streams_) {
      const use_token token(each.ref(), {reads(made)});
    }
    return made;
  }
  [[nodiscard]] column numbers() const {
    return column::make(ctx_, {data_type(type_id::int64), 512, 0, 0, {{}, used()}});
  }

  std::shared_ptr<backend> device_ = make_device();
  std::shared_ptr<context> ctx_ = context::create(device_);
  std::vector<stream> streams_ = [&] {
    std::vector<stream> made;
    for (int i = 0; i < 5; ++i) {
      made.emplace_back(device_);
    }
    return made;
  }();

private:
  report_sink before_;
};

TEST_P(calls_without_memory, ending_uses_and_releasing_memory_does_not_throw) {
  const auto nothing = [](auto& state) { state.reset(); };
  expect_survival([&] { return std::optional(used()); }, nothing);
  expect_survival([&] { return std::optional(numbers()); }, nothing);
  expect_survival([&] { return std::make_unique<use_token>(streams_[0].ref(), std::array{updates(used())}); },
                  nothing);
  expect_survival(
      [&] {
        const buffer held = used();
        return std::optional<export_hold>(std::in_place, std::span(&held, 1), access::write);
      },
      [&](auto& state) {
        state->end_on(streams_[1].native_handle());
        state.reset();
      });
  expect_survival(
      [&] {
        external_memory lent;
        lent.device = device_->device();
        lent.tag = "a name that is too long to be kept in place";
        lent.keepalive = std::make_shared<int>(7);
        return std::optional(buffer::adopt(ctx_, std::move(lent)));
      },
      nothing);
  expect_survival([&] { return lend_memory(ctx_, 64, streams_[0].ref(), "lent"); },
                  [&](void* lent) {
                    note_lent_use(lent, streams_[1].native_handle());
                    take_back_memory(lent, 65, streams_[2].native_handle());
                  });
  expect_survival([] { return 0; }, [&](int&) { take_back_memory(this, 64, std::nullopt); });
}

TEST_P(calls_without_memory, destroying_streams_events_budgets_and_contexts_does_not_throw) {
  const auto nothing = [](auto& state) { state.reset(); };
  expect_survival([&] { return std::optional<stream>(std::in_place, device_); }, nothing);
  expect_survival([&] { return std::optional<event>(std::in_place, device_); }, nothing);
  expect_survival([&] { return std::optional(ctx_->borrow_stream()); }, nothing);
  expect_survival([&] { return std::optional(reservation::make(ctx_->memory_budget(), 64)); }, nothing);
  expect_survival([&] { return ctx_->with_reservation(64); }, nothing);
  expect_survival([&] { return ctx_->with_budget("a part of the budget with a long name", 64); }, nothing);
  expect_survival([&] { return ctx_->charge_host(64, "a charge with a name that is long"); }, nothing);
  expect_survival(
      [&] { return ctx_->add_pressure_hook("a hook with a long name", 1, [](auto) { return 0U; }); },
      [](auto& hook) { hook.remove(); });
  expect_survival([&] { return context::create(make_device()); }, nothing);
}

TEST_P(calls_without_memory, reporting_and_counting_does_not_throw) {
  const auto sink = std::make_shared<sink_of_events>();
  const auto log = ctx_->reports().log();
  expect_survival([] { return log_record(); },
                  [&](log_record& record) {
                    record.outcome = "ok";
                    log->write(record);
                    log->flush();
                    log->detach(sink);
                  });
  expect_survival([] { return 0; },
                  [&](int&) {
                    ctx_->copies().count_transfer(copy_kind::host_to_device);
                    EXPECT_FALSE(ctx_->copies().forbids_downloads());
                    EXPECT_FALSE(ctx_->closed());
                    EXPECT_FALSE(ctx_->inherited());
                    with_report_text([](std::string_view text) { EXPECT_FALSE(text.empty()); },
                                     "without memory", "a text that needs memory, of ", 1234567, " bytes");
                  });
  expect_survival([&] { return landing_memory(ctx_, 4096).memory; },
                  [&](auto& memory) {
                    memory.reset();
                    host_pool_of(ctx_)->trim();
                  });
}

TEST_P(calls_without_memory, describing_types_and_columns_does_not_throw) {
  std::vector<data_type> types = support::carried_types();
  types.push_back(symbol_type());
  types.push_back(data_type::byte_bool());
  for (const data_type& type : types) {
    const column none = column::empty(ctx_, type);
    expect_survival([&] { return type; },
                    [&](const data_type& of) {
                      const data_type copy = of;
                      EXPECT_TRUE(copy == of && data_type() == data_type());
                      static_cast<void>(has_tensor_type(of));
                      static_cast<void>(narrow_float_of(of));
                      static_cast<void>(is_view_cast(of, copy));
                      static_cast<void>(can_be_symbols(of));
                      static_cast<void>(code_type(of));
                      static_cast<void>(limit_of(of));
                      static_cast<void>(number_kind_of_number(of));
                      static_cast<void>(of.check());
                      static_cast<void>(of.is_bool8() || of.is_signed() || of.is_temporal());
                      static_cast<void>(none.known_null_count());
                      static_cast<void>(none.validity().present());
                      static_cast<void>(none.share_of(9).count + total_rows(std::span(&none, 1)));
                    });
  }
  static_cast<void>(max_entries(data_type(type_id::int8)));
  expect_survival([] { return 0; },
                  [&](int&) {
                    static_cast<void>(to_tensor_device(device_->device(), memory_kind::pinned));
                    static_cast<void>(kind_of(tensor_device{}));
                    static_cast<void>(process_symbols()->find("a name that no table has, and that is long"));
                    static_cast<void>(process_symbols()->lookup({}));
                  });
}

TEST_P(calls_without_memory, releasing_exports_does_not_throw) {
  const table source = support::random_table(ctx_, {data_type(type_id::int64)}, {.batch_rows = {64}});
  expect_survival(
      [&] {
        arrow_device_array made = export_device_batch(source, 0);
        return made;
      },
      [](arrow_device_array& made) { made.reset(); });
  expect_survival(
      [&] {
        arrow_stream made = export_stream(source);
        return made;
      },
      [](arrow_stream& made) { made.reset(); });
  expect_survival(
      [&] {
        arrow_schema made = export_schema(source.fields());
        return made;
      },
      [](arrow_schema& made) { made.reset(); });
}

TEST_P(calls_without_memory, measuring_columns_and_tables_throws_bad_alloc) {
  const table source = support::random_table(ctx_, {data_type(type_id::string)}, {.batch_rows = {64, 3}});
  const table part = source.slice(3, 40);
  const std::uint64_t expected = source.slice(3, 40).byte_size();
  EXPECT_FALSE(noexcept(part.byte_size()));
  for (std::size_t successes = 0; successes < most_allocations; ++successes) {
    const table copy = source.slice(3, 40);
    try {
      const unit::failing_new fails(successes);
      EXPECT_EQ(copy.byte_size(), expected);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(copy.byte_size(), expected) << "with memory again";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, calls_without_memory, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "on_a_device" : "on_the_host"; });

} // namespace
} // namespace saeta
