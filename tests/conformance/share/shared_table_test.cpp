// Tables that one process shares and another one opens. The other process is this program, started again with
// one of the tests below whose names begin with "other": it does its part, and ends when its input does.
//
// To see the tests fail, remove the lease in `answer` (saeta/share/broker.cpp) or the check of the user in
// `connect` (saeta/share/wire.cpp).
#include "conformance/harness/backends.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/share/broker.hpp"
#include "saeta/share/shared_table.hpp"
#include "support/error_of.hpp"
#include "support/eventually.hpp"
#include "support/tables.hpp"

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace saeta::conformance {
namespace {

using support::error_of;
using ::testing::HasSubstr;

constexpr const char* variable = "TOKEN_OF_A_SHARED_TABLE";

std::string hexadecimal_of(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte each : bytes) {
    text += digits[std::to_integer<unsigned>(each) >> 4];
    text += digits[std::to_integer<unsigned>(each) & 15];
  }
  return text;
}

share_token token_in(std::string_view text) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(at, 2)), nullptr, 16)));
  }
  return share_token::from_bytes(bytes);
}

using support::eventually;

/// This program, started again for one test.
class other_process {
public:
  other_process(const std::string& test, const std::string& token) {
    std::array<int, 2> to{};
    std::array<int, 2> from{};
    EXPECT_EQ(::pipe2(to.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from.data(), O_CLOEXEC), 0);
    // Made before fork, because the child of a process with threads may not allocate.
    std::vector<std::string> kept{concat("--gtest_filter=conformance/shared_tables.", test),
                                  concat(variable, "=", token)};
    std::vector<char*> settings{kept[1].data()};
    for (char** each = environ; *each != nullptr; ++each) {
      if (!std::string_view(*each).starts_with("GTEST_")) {
        settings.push_back(*each);
      }
    }
    settings.push_back(nullptr);
    std::string program = "/proc/self/exe";
    std::array<char*, 3> arguments{program.data(), kept[0].data(), nullptr};
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], said_at);
      ::execve(program.data(), arguments.data(), settings.data());
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    input_ = to[1];
    said_ = from[0];
  }
  other_process(const other_process&) = delete;
  other_process& operator=(const other_process&) = delete;
  ~other_process() {
    end();
    ::close(said_);
  }

  /// Called by the other process: says a line, and waits until its input ends.
  static void say_and_wait(const std::string& line) {
    const std::string whole = line + "\n";
    EXPECT_EQ(::write(said_at, whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
    char byte = 0;
    static_cast<void>(::read(STDIN_FILENO, &byte, 1) == 0);
  }
  /// The line that it has said; "" if it ended without one.
  [[nodiscard]] std::string line() const {
    std::string found;
    char byte = 0;
    while (::read(said_, &byte, 1) == 1 && byte != '\n') {
      found += byte;
    }
    return found;
  }
  void kill() { ::kill(pid_, SIGKILL); }
  /// Ends the input, and waits for the end of the process. Returns its exit code, 0 if its checks passed.
  int end() {
    if (input_ >= 0) {
      ::close(std::exchange(input_, -1));
      ::waitpid(pid_, &status_, 0);
    }
    return status_;
  }

private:
  static constexpr int said_at = 100; ///< the descriptor that it writes its lines to

  pid_t pid_ = -1;
  int input_ = -1;
  int said_ = -1;
  int status_ = -1;
};

class shared_tables : public backend_test {
protected:
  void SetUp() override { ctx_ = new_context(); }
  void TearDown() override {
    close_idle_connections();
    ctx_ = nullptr;
    backend_test::TearDown();
  }

  /// The same table in every process.
  [[nodiscard]] table example() const {
    return support::random_table(
        ctx_, {data_type(type_id::int64), data_type(type_id::string), data_type(type_id::boolean)},
        {.seed = 9});
  }
  [[nodiscard]] std::string backend() const { return backend_name({GetParam(), 0}); }
  [[nodiscard]] std::unique_ptr<other_process> start(const std::string& test,
                                                     const std::string& token = {}) const {
    return std::make_unique<other_process>(concat(test, "/", backend()), token);
  }
  [[nodiscard]] std::uint64_t charged() const {
    ctx_->synchronize(ctx_->work_stream());
    ctx_->drain();
    const budget_statistics found = ctx_->memory_budget()->statistics();
    return found.current + found.reserved;
  }
  static std::string text_of(const share_token& token) { return hexadecimal_of(token.to_bytes()); }
  static const char* given() { return std::getenv(variable); }

  std::shared_ptr<context> ctx_;
};

#define SAETA_OTHER_PROCESS                                                                                  \
  if (given() == nullptr) {                                                                                  \
    GTEST_SKIP() << "started by the other tests";                                                            \
  }

TEST_P(shared_tables, other_opens) {
  SAETA_OTHER_PROCESS
  const table found = open_shared(ctx_, token_in(given()));
  EXPECT_TRUE(support::same_contents(found, example()));
  other_process::say_and_wait("opened");
}

TEST_P(shared_tables, are_opened_by_another_process_that_keeps_the_memory) {
  const std::uint64_t before = charged();
  std::optional<shared_table> shared = share(example());
  const auto first = start("other_opens", text_of(shared->token()));
  const auto second = start("other_opens", text_of(shared->token()));
  EXPECT_EQ(first->line(), "opened");
  EXPECT_EQ(second->line(), "opened");
  shared.reset();
  EXPECT_GE(charged(), before + 1000);
  EXPECT_EQ(first->end(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GE(charged(), before + 1000) << "the second one keeps the memory";
  second->kill();
  second->end();
  EXPECT_TRUE(eventually([&] { return charged() == before; })) << charged() << " " << before;
}

TEST_P(shared_tables, other_shares) {
  SAETA_OTHER_PROCESS
  const shared_table shared = share(example());
  const shared_table unopened = share(example());
  other_process::say_and_wait(concat(text_of(shared.token()), " ", text_of(unopened.token())));
}

TEST_P(shared_tables, stay_readable_when_their_process_is_killed) {
  const auto other = start("other_shares", "none");
  const std::string said = other->line();
  const std::size_t space = said.find(' ');
  ASSERT_NE(space, std::string::npos);
  const share_token token = token_in(said.substr(0, space));
  const opened_form form = opened_form::open(token, [&](const share_token&, bool) { return ctx_; });
  const table found = open_shared(ctx_, token);
  EXPECT_FALSE(form.producer_ended());
  other->kill();
  other->end();
  EXPECT_TRUE(eventually([&] { return form.producer_ended(); }));
  EXPECT_TRUE(support::same_contents(found, example()));
  const error gone =
      error_of([&] { static_cast<void>(open_shared(ctx_, token_in(said.substr(space + 1)))); });
  EXPECT_EQ(gone.code(), errc::closed);
  EXPECT_THAT(gone.message(), HasSubstr("the table can't be opened: "));
  EXPECT_THAT(gone.message(), HasSubstr("has ended"));
  EXPECT_TRUE(eventually([&] { return imported_brokers(*ctx_).empty(); }));
}

TEST_P(shared_tables, are_opened_by_their_own_process) {
  const std::uint64_t before = charged();
  {
    std::optional<shared_table> shared = share(example());
    const share_token token = shared->token();
    EXPECT_EQ(token.device.has_value(), !ctx_->on_host());
    const table found = open_shared(ctx_, token);
    shared.reset();
    EXPECT_TRUE(support::same_contents(found, example()));
  }
  EXPECT_TRUE(eventually([&] { return charged() == before; }));
}

TEST_P(shared_tables, without_rows_or_columns_can_be_shared) {
  const table source = support::random_table(ctx_, {data_type(type_id::int64)}, {.batch_rows = {}});
  const shared_table shared = share(source);
  EXPECT_EQ(open_shared(ctx_, shared.token()).rows(), 0);
}

TEST_P(shared_tables, errors_say_what_is_wrong_with_a_token) {
  const shared_table shared = share(example());
  share_token far = shared.token();
  far.machine[0] ^= std::byte{1};
  EXPECT_THAT(error_of([&] { static_cast<void>(open_shared(ctx_, far)); }).message(),
              HasSubstr("another machine"));
  share_token unknown = shared.token();
  unknown.key[0] ^= std::byte{1};
  const error refused = error_of([&] { static_cast<void>(open_shared(ctx_, unknown)); });
  EXPECT_EQ(refused.code(), errc::closed);
  EXPECT_THAT(refused.message(), HasSubstr("it is not shared any more"));
  EXPECT_EQ(error_of([&] { static_cast<void>(open_shared(nullptr, unknown)); }).code(),
            errc::invalid_argument);
  shared_table moved = shared;
  const shared_table taken = std::move(moved);
  EXPECT_EQ(error_of([&] { static_cast<void>(moved.token()); }).code(),
            errc::closed); // NOLINT: what is tested
}

TEST_P(shared_tables, are_opened_where_they_are) {
  if (ctx_->on_host()) {
    GTEST_SKIP() << "of devices";
  }
  const auto host = watch(context::create(make_host_backend()));
  const auto other = start("other_shares", "none");
  const std::string said = other->line();
  const share_token token = token_in(said.substr(0, said.find(' ')));
  const error refused = error_of([&] { static_cast<void>(open_shared(host, token)); });
  EXPECT_EQ(refused.code(), errc::invalid_argument);
  EXPECT_THAT(refused.message(), HasSubstr("is on a GPU, and can't be opened in a context of host"));
  other->kill();
}

TEST_P(shared_tables, other_posts) {
  SAETA_OTHER_PROCESS
  const std::uint64_t before = charged();
  share_token posted;
  {
    const shared_table shared = share(example());
    broker::own()->post(shared.memory());
    posted = shared.token();
    posted.posted = true;
  }
  EXPECT_EQ(broker::own()->posted().size(), 1U);
  other_process::say_and_wait(text_of(posted));
  EXPECT_TRUE(broker::own()->wait_for_arrivals(std::chrono::seconds(10)));
  EXPECT_TRUE(eventually([&] { return charged() == before; })) << "the thread of the broker frees it";
}

TEST_P(shared_tables, that_were_posted_are_kept_until_they_have_arrived) {
  const auto other = start("other_posts", "none");
  share_token token = token_in(other->line());
  share_token sent_on = token;
  sent_on.posted = false;
  {
    const table first = open_shared(ctx_, sent_on);
    post_shared(token);
    note_shared_arrival(token);
    EXPECT_TRUE(support::same_contents(open_shared(ctx_, token), example()));
  }
  ctx_->synchronize(ctx_->work_stream());
  ctx_->drain();
  EXPECT_EQ(other->end(), 0);
  note_shared_arrival(token); // the process has ended
  EXPECT_EQ(error_of([&] { post_shared(token); }).code(), errc::closed);
}

TEST_P(shared_tables, of_a_process_are_charged) {
  const std::shared_ptr<context> small = ctx_->with_budget("small", 4096);
  ipc::packed_table packed = ipc::pack(example());
  if (ctx_->on_host()) {
    EXPECT_EQ(error_of([&] { static_cast<void>(share(small, packed)); }).code(), errc::budget_exceeded);
  }
  const std::uint64_t before = charged();
  {
    const shared_table shared = share(ctx_, packed);
    EXPECT_GE(charged(), before + shared.token().nbytes - packed.metadata.size());
  }
  EXPECT_TRUE(eventually([&] { return charged() == before; }));
}

SAETA_CONFORMANCE_SUITE(shared_tables);

} // namespace
} // namespace saeta::conformance
