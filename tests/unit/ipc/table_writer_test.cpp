// The writer that writes a file table by table in a background thread.
#include "ipc_test.hpp"
#include "support/interrupts.hpp"
#include "system_calls.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <latch>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace saeta::ipc {
namespace {

using support::same_contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::array containers{container::file, container::stream};

class table_writer : public ipc_test {
protected:
  [[nodiscard]] table numbers(std::vector<std::int64_t> rows, std::uint64_t seed = 1) const {
    return support::random_table(ctx(), {data_type(type_id::int64), data_type(type_id::string)},
                                 {.batch_rows = std::move(rows), .seed = seed});
  }
  /// Splits a table into tables of one batch each.
  [[nodiscard]] std::vector<table> batches_of(const table& source) const {
    std::vector<table> made;
    for (const batch& each : source.batches()) {
      made.push_back(table::make(ctx(), source.fields(), {each}));
    }
    return made;
  }
  static void write_each(writer& to, const std::vector<table>& tables) {
    for (const table& each : tables) {
      to.write(each);
    }
  }
  [[nodiscard]] static byte_sink into(std::string& target) {
    return [&target](std::span<const std::byte> bytes) {
      target.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
  }
};

/// A sink whose calls block until `open`.
class held_sink {
public:
  [[nodiscard]] byte_sink calls() const {
    return [shared = shared_](std::span<const std::byte>) {
      shared->called.test_and_set();
      shared->called.notify_all();
      shared->open.wait();
    };
  }
  void wait_for_call() const { shared_->called.wait(false); }
  void open() const { shared_->open.count_down(); }
  /// Waits until the writer has dropped its copies of `calls()`, and before that its tables.
  void wait_for_the_end() const {
    while (shared_.use_count() > 1) {
      std::this_thread::yield();
    }
  }

private:
  struct state {
    std::latch open{1};
    std::atomic_flag called;
  };
  std::shared_ptr<state> shared_ = std::make_shared<state>();
};

TEST_F(table_writer, writes_the_same_bytes_as_one_write_of_all_batches) {
  const table original = numbers({200, 1, 0, 77, 3000});
  for (const auto format : containers) {
    const write_options options{.format = format, .durable = false};
    const std::string expected = write_bytes(original, options);
    for (const auto& fields : {std::optional<schema>(original.fields()), std::optional<schema>()}) {
      writer to(file("a"), fields, options);
      write_each(to, batches_of(original));
      EXPECT_THAT(names(), IsEmpty());
      EXPECT_EQ(to.close(), expected.size());
      EXPECT_EQ(to.close(), expected.size());
      EXPECT_EQ(load(file("a")), expected);
      std::filesystem::remove(file("a"));
    }
    std::string bytes;
    writer to(into(bytes), "sink", std::nullopt, options);
    write_each(to, batches_of(original));
    EXPECT_EQ(to.close(), expected.size());
    EXPECT_EQ(bytes, expected);
  }
}

TEST_F(table_writer, writes_every_type_with_compression) {
  const table original = every_type();
  for (const auto format : containers) {
    for (const auto body : {compression::none, compression::lz4, compression::zstd}) {
      writer to(file("a"), original.fields(), {.format = format, .body = body, .durable = false});
      write_each(to, batches_of(original));
      to.close();
      EXPECT_TRUE(same_contents(read(file("a"), {.combine_chunks = false}), original));
    }
  }
}

TEST_F(table_writer, reports_progress_without_a_total) {
  const table original = numbers({5, 7});
  std::vector<std::pair<std::int64_t, std::int64_t>> heard;
  writer to(file("a"), std::nullopt, {.durable = false}, [&](const progress& so_far) {
    EXPECT_EQ(so_far.total_batches, -1);
    heard.emplace_back(so_far.batches, so_far.rows);
  });
  write_each(to, batches_of(original));
  to.close();
  EXPECT_THAT(heard, ElementsAre(std::pair(1, 5), std::pair(2, 12)));
}

TEST_F(table_writer, without_a_table_writes_its_schema) {
  const table empty = table::make(ctx(), every_type().fields(), {});
  for (const auto format : containers) {
    writer to(file("a"), empty.fields(), {.format = format});
    EXPECT_GT(to.close(), 0U);
    EXPECT_TRUE(same_contents(read(file("a")), empty));
  }
}

TEST_F(table_writer, without_a_table_or_schema_is_an_error_and_keeps_the_old_file) {
  store(file("a"), "the old one");
  writer to(file("a"), std::nullopt);
  EXPECT_ERROR(to.close(), invalid_argument, file("a").string(), "no schema");
  EXPECT_ERROR(to.close(), closed, "has failed");
  EXPECT_EQ(load(file("a")), "the old one");
}

TEST_F(table_writer, refuses_a_table_with_another_schema_and_continues) {
  const auto of = [&](const std::string& name, const data_type& type, bool nullable = true) {
    return support::table_of(ctx(), {{{name, type, nullable, {}}}, {}},
                             {{support::random_array(type, {3}, 1)}});
  };
  const data_type whole(type_id::int64);
  const table first = of("a", whole);
  writer to(file("a"), std::nullopt);
  to.write(first);
  EXPECT_ERROR(to.write(of("b", whole)), type_mismatch, "column 0 is 'b' (int64), expected 'a'",
               file("a").string());
  EXPECT_ERROR(to.write(of("a", data_type(type_id::int32))), type_mismatch, "'a' (int32)",
               "expected 'a' (int64)");
  EXPECT_ERROR(to.write(numbers({3})), type_mismatch, "column 0 is '0:int64' (int64), expected 'a' (int64)");
  to.write(of("a", whole, false)); // not nullable: allowed
  to.close();
  EXPECT_EQ(read(file("a")).rows(), 6);

  writer strict(file("b"), schema{{{"a", whole, false, {}}}, {}});
  EXPECT_ERROR(strict.write(first), type_mismatch, "'a' (int64), expected 'a' (int64, not null)");
}

TEST_F(table_writer, refuses_unsupported_schemas_in_the_constructor) {
  const auto words = data_type::dictionary(data_type(type_id::int8), data_type(type_id::string));
  const schema fields{{{"deep", data_type::dictionary(data_type(type_id::int8), words), true, {}}}, {}};
  EXPECT_ERROR(writer(file("a"), fields), unsupported, "column 'deep'");
  EXPECT_ERROR(writer(file("no/such"), std::nullopt), io, "No such file or directory");
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(table_writer, that_is_dropped_or_abandoned_keeps_the_old_file) {
  store(file("a"), "the old one");
  const table original = numbers({100});
  const auto before = support::open_files();
  {
    writer dropped(file("a"), std::nullopt);
    dropped.write(original);
  }
  writer abandoned(file("a"), std::nullopt);
  abandoned.write(original);
  abandoned.abandon();
  abandoned.abandon();
  EXPECT_ERROR(abandoned.write(original), closed, "was abandoned");
  EXPECT_ERROR(abandoned.close(), closed, "was abandoned");
  EXPECT_EQ(load(file("a")), "the old one");
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(support::open_files(), before);
}

TEST_F(table_writer, that_is_closed_refuses_tables_and_keeps_its_file) {
  writer to(file("a"), numbers({1}).fields());
  to.close();
  EXPECT_ERROR(to.write(numbers({1})), closed, "is closed");
  EXPECT_ERROR(to.flush(), closed, "is closed");
  to.abandon();
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(table_writer, flush_waits_until_the_sink_has_the_bytes) {
  const table original = numbers({10});
  std::string bytes;
  writer to(into(bytes), "sink", std::nullopt, {.format = container::stream});
  to.flush();
  for (std::int64_t times = 1; times <= 3; ++times) {
    to.write(original);
    to.flush();
    EXPECT_EQ(read_bytes(bytes).rows(), 10 * times) << "a stream may end between two messages";
  }
  to.close();
}

TEST_F(table_writer, releases_a_table_when_it_is_written) {
  const auto buffers = [&] { return ctx()->reports().statistics().ledger.buffers; };
  for (const auto format : containers) {
    writer to(file("a"), std::nullopt, {.format = format, .durable = false});
    to.write(numbers({100, 200}));
    to.flush();
    EXPECT_EQ(buffers(), 0U);
    to.close();
  }
  std::vector<data_type> types = support::carried_types(); // including dictionaries in children
  std::erase_if(types, [](const data_type& type) {
    return type.value_type() != nullptr && type.value_type()->value_type() != nullptr;
  });
  for (const auto format : containers) {
    std::optional<table> original(support::random_table(ctx(), types, {.batch_rows = {50}}));
    const auto held = buffers();
    writer to(file("a"), std::nullopt, {.format = format, .durable = false});
    to.write(*original);
    to.flush();
    original.reset();
    EXPECT_LT(buffers(), held / 2) << "the last dictionaries stay for the next table";
    to.close();
  }
}

TEST_F(table_writer, any_failed_write_is_thrown_once_and_keeps_the_old_file) {
  store(file("a"), "the old one");
  const std::vector<table> tables = batches_of(numbers({200'000, 10, 30'000}));
  const auto before = support::open_files();
  std::size_t calls = 0;
  const auto attempt = [&](int failure, std::size_t from) {
    const support::system_call_trap trap(
        support::system_call::pwritev,
        [&](std::size_t number, const std::string&) { return number >= from ? failure : 0; });
    writer to(file("a"), std::nullopt);
    std::optional<error> seen;
    try {
      for (const table& each : tables) {
        to.write(each);
        to.flush(); // makes the number of calls deterministic
      }
      to.close();
    } catch (const error& thrown) {
      seen = thrown;
      EXPECT_ERROR(to.write(tables.front()), closed, "has failed");
      EXPECT_ERROR(to.close(), closed, "has failed");
    }
    calls = trap.calls();
    return seen;
  };
  for (std::size_t full = 0;; ++full) {
    const auto seen = attempt(ENOSPC, full);
    if (!seen) {
      break;
    }
    EXPECT_EQ(name_of(seen->code()), name_of(errc::io));
    EXPECT_THAT(seen->message(), HasSubstr("(errno 28)"));
    EXPECT_EQ(load(file("a")), "the old one");
    EXPECT_THAT(names(), ElementsAre("a"));
    EXPECT_EQ(support::open_files(), before);
  }
  EXPECT_GT(calls, 3U);
  EXPECT_EQ(read(file("a")).rows(), 230'010);
}

TEST_F(table_writer, a_failed_commit_keeps_the_old_file) {
  store(file("a"), "the old one");
  for (const auto call : {support::system_call::fsync, support::system_call::linkat}) {
    writer to(file("a"), std::nullopt);
    to.write(numbers({10}));
    const support::system_call_trap trap(call, [](std::size_t, const std::string&) { return EIO; });
    EXPECT_ERROR(to.close(), io, "(errno 5)");
    EXPECT_ERROR(to.close(), closed, "has failed");
    EXPECT_EQ(load(file("a")), "the old one");
  }
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(table_writer, exceptions_of_the_sink_and_the_hook_are_rethrown) {
  struct refusal {};
  const std::vector<table> tables = batches_of(numbers({20'000, 20'000}));
  for (std::size_t last = 0;; ++last) {
    std::size_t calls = 0;
    writer to(
        [&](std::span<const std::byte>) {
          if (calls++ == last) {
            throw refusal();
          }
        },
        "sink", std::nullopt);
    try {
      write_each(to, tables);
      to.close();
      EXPECT_GT(last, 3U);
      break;
    } catch (const refusal&) {
      EXPECT_ERROR(to.close(), closed, "sink: the writer has failed");
    }
  }
  writer to(file("a"), std::nullopt, {}, [](const progress&) { throw refusal(); });
  to.write(tables.front());
  EXPECT_THROW(to.flush(), refusal);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(table_writer, a_wait_for_queue_space_can_be_interrupted_without_loss) {
  struct interrupted {};
  const table original = numbers({1000});
  const held_sink held;
  const write_options options{.pending_bytes = 3 * original.byte_size()};
  writer to(held.calls(), "sink", std::nullopt, options);
  to.write(original);
  held.wait_for_call(); // the sink does not have it yet
  to.write(original);
  to.write(original); // the queue is full now
  {
    const support::interrupts hook([caller = std::this_thread::get_id()] {
      if (std::this_thread::get_id() == caller) {
        throw interrupted();
      }
    });
    EXPECT_THROW(to.write(original), interrupted);
    EXPECT_THROW(to.flush(), interrupted);
  }
  held.open();
  to.write(original);
  to.flush();
  const std::uint64_t bytes = to.close();
  EXPECT_GT(bytes, 4 * original.byte_size());
  EXPECT_LT(bytes, 5 * original.byte_size());
}

TEST_F(table_writer, accepts_a_table_larger_than_the_queue) {
  const table original = numbers({1000, 1000});
  writer to(file("a"), std::nullopt, {.durable = false, .pending_bytes = 1});
  to.write(original);
  to.write(original);
  to.close();
  EXPECT_EQ(read(file("a")).rows(), 4000);
}

TEST_F(table_writer, abandon_ends_a_call_that_waits) {
  const table original = numbers({1000});
  const held_sink held;
  writer to(held.calls(), "sink", std::nullopt, {.pending_bytes = 1});
  to.write(original);
  held.wait_for_call();
  std::latch waits(1);
  std::thread other([&] {
    waits.count_down();
    EXPECT_ERROR(to.write(original), closed);
  });
  waits.wait();
  std::thread ends([&] { to.abandon(); });
  other.join();
  held.open();
  ends.join();
  EXPECT_ERROR(to.write(original), closed, "was abandoned");
}

TEST_F(table_writer, an_interrupted_close_leaves_no_file) {
  struct interrupted {};
  const held_sink held;
  {
    writer to(held.calls(), "sink", std::nullopt);
    to.write(numbers({10}));
    held.wait_for_call();
    {
      const support::interrupts hook([] { throw interrupted(); });
      EXPECT_THROW(to.close(), interrupted) << "though the sink does not return";
    }
    EXPECT_ERROR(to.close(), closed, "has failed");
  }
  held.open();
  held.wait_for_the_end();
}

TEST_F(table_writer, refuses_calls_from_its_own_sink) {
  std::optional<writer> to;
  to.emplace([&](std::span<const std::byte>) { to->flush(); }, "sink", std::nullopt);
  to->write(numbers({10}));
  EXPECT_ERROR(to->flush(), busy, "by its own sink");
}

TEST_F(table_writer, can_be_used_by_several_threads) {
  const table original = numbers({100});
  writer to(file("a"), std::nullopt, {.durable = false, .pending_bytes = 3 * original.byte_size()});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int times = 0; times < 25; ++times) {
          to.write(original);
        }
      });
    }
  }
  to.close();
  EXPECT_EQ(read(file("a")).rows(), 10'000);
}

TEST_F(table_writer, needs_a_sink) {
  EXPECT_ERROR(writer(byte_sink(), "wire", std::nullopt), invalid_argument, "sink");
}

TEST_F(table_writer, can_not_be_used_by_a_forked_child) {
  writer to(file("a"), std::nullopt, {.durable = false});
  to.write(numbers({10}));
  to.flush();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      to.close();
    } catch (const error& refused) {
      ::_exit(refused.code() == errc::closed ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  to.close();
  EXPECT_EQ(read(file("a")).rows(), 10);
}

} // namespace
} // namespace saeta::ipc
