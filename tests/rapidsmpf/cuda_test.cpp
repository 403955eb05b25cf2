// Tests with RapidsMPF that need a GPU: packed data, spilling and a shuffle, under budgets of Saeta.
#include "conformance/harness/backends.hpp"
#include "rapidsmpf/ranks.hpp"
#include "rmm/stand_in.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/rapidsmpf/packed_data.hpp"
#include "saeta/rapidsmpf/spill_link.hpp"
#include "support/tables.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <rapidsmpf/memory/spill.hpp>
#include <rapidsmpf/shuffler/shuffler.hpp>
#include <rmm/mr/per_device_resource.hpp>

namespace saeta::conformance {
namespace {

constexpr std::size_t mebibyte = 1 << 20;
constexpr rapidsmpf::shuffler::PartID partitions = 12;

class rapidsmpf_on_cuda : public ::testing::Test {
protected:
  void SetUp() override {
    const auto& all = backends();
    const auto found = std::ranges::find(all, "cuda", &backend_entry::name);
    if (found == all.end()) {
      GTEST_SKIP() << "no usable CUDA device";
    }
    device_ = found->make();
    context_options options;
    options.budget = 256 * mebibyte;
    options.pressure.wait = std::chrono::seconds(60); // waits for chunks that are being sent to another rank
    ctx_ = context::create(device_, std::move(options));
  }
  void TearDown() override {
    if (ctx_ != nullptr) {
      EXPECT_TRUE(ctx_->wait_for_releases(std::chrono::seconds(60)));
      EXPECT_EQ(ctx_->memory_budget()->statistics().current, 0U);
    }
  }
  /// Makes a BufferResource without a periodic spill thread, so that spilling is deterministic.
  [[nodiscard]] static std::shared_ptr<rapidsmpf::BufferResource>
  resource_of(const std::shared_ptr<context>& ctx) {
    return rapidsmpf::BufferResource::create(context_resource(ctx, "rapidsmpf"),
                                             rapidsmpf::PinnedMemoryDisabled, memory_limits_of(*ctx),
                                             std::nullopt);
  }
  /// Makes a packed table of random numbers from a seed.
  [[nodiscard]] static table numbers(const std::shared_ptr<context>& in, std::uint64_t seed,
                                     std::int64_t rows = 1000) {
    support::table_shape shape;
    shape.batch_rows = {rows};
    shape.seed = seed;
    const std::vector<data_type> types{data_type(type_id::int64), data_type(type_id::string)};
    const auto packed = ipc::pack(support::random_table(in, types, shape));
    return ipc::unpack(in, packed.metadata, packed.body);
  }
  [[nodiscard]] static std::int64_t available(const rapidsmpf::BufferResource& of) {
    return of.memory_available(rapidsmpf::MemoryType::DEVICE);
  }
  [[nodiscard]] static std::int64_t remaining(const context& ctx) {
    return static_cast<std::int64_t>(ctx.memory_budget()->statistics().remaining);
  }
  void shuffle(std::uint64_t tables_limit, std::uint64_t rapidsmpf_limit, std::int64_t rows) const;

  std::shared_ptr<backend> device_;
  std::shared_ptr<context> ctx_;
};

TEST_F(rapidsmpf_on_cuda, a_packed_table_becomes_packed_data_without_a_copy) {
  const auto resource = resource_of(ctx_);
  const table source = numbers(ctx_, 1);
  const buffer body = ipc::pack(source).body;
  ctx_->copies().reset_counters();
  const std::uint64_t before = ctx_->memory_budget()->statistics().current;
  rapidsmpf::PackedData data = pack_data(source, *resource, resource->stream_pool()->get_stream());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.data->data()), body.address());
  EXPECT_EQ(data.data->mem_type(), rapidsmpf::MemoryType::DEVICE);
  EXPECT_EQ(resource->device_mr_adaptor().current_allocated(), 0);
  const table back = unpack_data(ctx_, std::move(data), *resource, validation::structure);
  EXPECT_EQ(ipc::pack(back).body.owner(), body.owner());
  EXPECT_EQ(ctx_->memory_budget()->statistics().current, before);
  EXPECT_EQ(ctx_->copies().read_counters().device_to_device.bytes, 0U);
  EXPECT_TRUE(support::same_contents(back, source));
}

TEST_F(rapidsmpf_on_cuda, packed_data_of_rapidsmpf_becomes_a_table_without_a_copy) {
  const auto resource = resource_of(ctx_);
  table source = numbers(ctx_, 2);
  const rapidsmpf::PackedData data = pack_data(source, *resource, resource->stream_pool()->get_stream());
  auto reserved = resource->reserve_or_fail(data.data->size, rapidsmpf::MemoryType::DEVICE);
  rapidsmpf::PackedData copied = data.copy(reserved);
  EXPECT_GT(resource->device_mr_adaptor().current_allocated(), 0);
  const table taken = unpack_data(ctx_, std::move(copied), *resource);
  EXPECT_TRUE(support::same_contents(taken, source));
  EXPECT_EQ(resource->device_mr_adaptor().current_allocated(), 0);
  EXPECT_EQ(available(*resource), remaining(*ctx_)) << "the table is charged, and rapidsmpf knows";
  const buffer body = ipc::pack(taken).body;
  EXPECT_FALSE(body.owner()->external());
  EXPECT_EQ(body.owner()->tag(), "rapidsmpf");
}

TEST_F(rapidsmpf_on_cuda, a_pending_writer_is_waited_for) {
  const auto resource = resource_of(ctx_);
  const cuda::stream_ref stream = resource->stream_pool()->get_stream();
  const table source = numbers(ctx_, 3);
  const ipc::packed_table packed = ipc::pack(source);
  const buffer late = buffer::allocate(ctx_, packed.body.size(), ctx_->work_stream(), "late");
  const auto copy_of = [&](const rapidsmpf::PackedData& data) {
    auto reserved = resource->reserve_or_fail(data.data->size, rapidsmpf::MemoryType::DEVICE);
    return data.copy(reserved);
  };
  copy_of(pack_data(source, *resource, stream)); // allocates in advance what would hang behind the gate
  ctx_->synchronize(ctx_->work_stream());
  const auto& cuda = *std::ranges::find(backends(), "cuda", &backend_entry::name);
  const auto held = cuda.close_gate(*device_, ctx_->work_stream().native_handle());
  {
    const use_token token(ctx_->work_stream(), {reads(packed.body), writes(late)});
    ctx_->copies().copy(token.span<std::byte>(late).data(), token.span<const std::byte>(packed.body).data(),
                        late.size(), copy_kind::device_to_device, ctx_->work_stream());
  }
  const table written = ipc::unpack(ctx_, packed.metadata, late, validation::structure);
  rapidsmpf::PackedData copied = copy_of(pack_data(written, *resource, stream));
  EXPECT_FALSE(copied.data->is_latest_write_done()) << "the copy did not wait for the writer";
  held->open();
  EXPECT_TRUE(support::same_contents(unpack_data(ctx_, std::move(copied), *resource), source));
}

TEST_F(rapidsmpf_on_cuda, spilled_data_is_restored) {
  const auto resource = resource_of(ctx_);
  std::vector<rapidsmpf::PackedData> data;
  data.push_back(pack_data(numbers(ctx_, 4), *resource, resource->stream_pool()->get_stream()));
  data = rapidsmpf::spill_partitions(std::move(data), resource.get());
  EXPECT_EQ(data.front().data->mem_type(), rapidsmpf::MemoryType::HOST);
  EXPECT_TRUE(ctx_->wait_for_releases(std::chrono::seconds(60)));
  EXPECT_EQ(ctx_->memory_budget()->statistics().current, 0U) << "nothing of it is left on the device";
  const table back = unpack_data(ctx_, std::move(data.front()), *resource);
  EXPECT_TRUE(support::same_contents(back, numbers(ctx_, 4)));
}

TEST_F(rapidsmpf_on_cuda, tables_on_the_host_are_refused) {
  const auto resource = resource_of(ctx_);
  const cuda::stream_ref stream = resource->stream_pool()->get_stream();
  const auto host = context::create(make_host_backend());
  const auto code = [](const auto& action) { return unit::code_raised_by(action); };
  EXPECT_EQ(code([&] { static_cast<void>(pack_data(numbers(host, 6), *resource, stream)); }),
            errc::invalid_argument);
  EXPECT_EQ(code([&] {
              static_cast<void>(unpack_data(host, pack_data(numbers(ctx_, 6), *resource, stream), *resource));
            }),
            errc::invalid_argument);
}

TEST_F(rapidsmpf_on_cuda, rapidsmpf_spills_tables_before_it_refuses) {
  const auto small = ctx_->with_budget("small", 4 * mebibyte);
  const auto resource = resource_of(small);
  const spill_handle kept = spillable(small, numbers(small, 5, 30'000));
  update_memory_limit(*resource);
  EXPECT_EQ(available(*resource), remaining(*small));
  const spill_link link(small, spill_manager_of(resource));
  const std::size_t wanted = 4 * mebibyte - kept.bytes() / 2;
  auto reserved = resource->reserve_device_memory_and_spill(wanted, rapidsmpf::AllowOverbooking::NO);
  EXPECT_NE(kept.tier(), spill_tier::device);
  const auto made = resource->make_buffer(wanted, resource->stream_pool()->get_stream(), reserved);
  EXPECT_EQ(made->mem_type(), rapidsmpf::MemoryType::DEVICE);
}

/// Shuffles with two ranks: each sends a table to every partition, and receives the tables of its partitions.
/// @param tables_limit     budget for the tables of a rank that are not sent yet
/// @param rapidsmpf_limit  budget for the data that a rank receives
void rapidsmpf_on_cuda::shuffle(std::uint64_t tables_limit, std::uint64_t rapidsmpf_limit,
                                std::int64_t rows) const {
  const auto seed_of = [](rapidsmpf::Rank from, rapidsmpf::shuffler::PartID to) {
    return static_cast<std::uint64_t>(from) * partitions + to + 1;
  };
  // Checks that RMM's current device resource is not used.
  const stand_in outside(device_);
  auto before = rmm::mr::set_current_device_resource(outside);
  std::mutex mutex;
  std::vector<rapidsmpf::shuffler::PartID> received;
  run_ranks(2, [&](const std::shared_ptr<rapidsmpf::Communicator>& ranks) {
    const auto tables = ctx_->with_budget("tables", tables_limit);
    const auto limited = ctx_->with_budget("rapidsmpf", rapidsmpf_limit);
    const auto resource = resource_of(limited);
    const spill_link link(limited, spill_manager_of(resource));
    rapidsmpf::shuffler::Shuffler shuffler(ranks, 0, partitions, resource.get());
    for (rapidsmpf::shuffler::PartID to = 0; to < partitions; ++to) {
      std::unordered_map<rapidsmpf::shuffler::PartID, rapidsmpf::PackedData> chunk;
      chunk.emplace(to, pack_data(numbers(tables, seed_of(ranks->rank(), to), rows), *resource,
                                  resource->stream_pool()->get_stream()));
      shuffler.insert(std::move(chunk));
    }
    shuffler.insert_finished();
    shuffler.wait(std::chrono::minutes(2));
    for (const rapidsmpf::shuffler::PartID each : shuffler.local_partitions()) {
      std::vector<spill_handle> taken;
      for (rapidsmpf::PackedData& data : shuffler.extract(each)) {
        taken.push_back(spillable(limited, unpack_data(limited, std::move(data), *resource)));
      }
      ASSERT_EQ(taken.size(), 2U);
      const auto holds = [&](const spill_handle& one, rapidsmpf::Rank from) {
        return support::same_contents(one.use(limited).value(), numbers(tables, seed_of(from, each), rows));
      };
      const std::size_t first = holds(taken[0], 0) ? 0 : 1; // chunks arrive in any order
      EXPECT_TRUE(holds(taken[first], 0));
      EXPECT_TRUE(holds(taken[1 - first], 1));
      const std::lock_guard lock(mutex);
      received.push_back(each);
    }
    EXPECT_LE(limited->memory_budget()->statistics().peak, rapidsmpf_limit);
    EXPECT_LE(tables->memory_budget()->statistics().peak, tables_limit);
    shuffler.shutdown();
  });
  rmm::mr::set_current_device_resource(std::move(before));
  EXPECT_TRUE(outside.seen().allocated.empty()) << "memory outside of the budget";
  std::ranges::sort(received);
  std::vector<rapidsmpf::shuffler::PartID> every(partitions);
  std::ranges::generate(every, [next = rapidsmpf::shuffler::PartID(0)]() mutable { return next++; });
  EXPECT_EQ(received, every);
}

TEST_F(rapidsmpf_on_cuda, a_shuffle_of_two_ranks_delivers_every_table) {
  shuffle(32 * mebibyte, 32 * mebibyte, 10'000);
}

TEST_F(rapidsmpf_on_cuda, a_shuffle_larger_than_its_budgets_delivers_every_table) {
  // Each rank sends and receives about 8 MiB.
  shuffle(3 * mebibyte, 3 * mebibyte, 30'000);
}

} // namespace
} // namespace saeta::conformance
