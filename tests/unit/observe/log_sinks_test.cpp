#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <unistd.h>

namespace saeta {
namespace {

using ::testing::HasSubstr;

/// Parses one JSON value (RFC 8259) at the beginning of a text and removes it. Returns false if it is
/// invalid.
class json_reader {
public:
  explicit json_reader(std::string_view text) : rest_(text) {}

  static bool accepts(std::string_view text) {
    json_reader reader(text);
    return reader.value() && (reader.blanks(), reader.rest_.empty());
  }

private:
  void blanks() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_.front()) != std::string_view::npos) {
      rest_.remove_prefix(1);
    }
  }
  bool take(char expected) {
    blanks();
    if (rest_.empty() || rest_.front() != expected) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }
  bool value() {
    blanks();
    if (rest_.empty()) {
      return false;
    }
    switch (rest_.front()) {
    case '{':
      return list('{', '}', [this] { return string() && take(':') && value(); });
    case '[':
      return list('[', ']', [this] { return value(); });
    case '"':
      return string();
    default:
      return number();
    }
  }
  template <class Element>
  bool list(char open, char close, Element element) {
    if (!take(open)) {
      return false;
    }
    if (take(close)) {
      return true;
    }
    do {
      if (!element()) {
        return false;
      }
    } while (take(','));
    return take(close);
  }
  bool string() {
    if (!take('"')) {
      return false;
    }
    while (!rest_.empty() && rest_.front() != '"') {
      if (static_cast<unsigned char>(rest_.front()) < 0x20) {
        return false;
      }
      rest_.remove_prefix(rest_.front() == '\\' && rest_.size() > 1 ? 2 : 1);
    }
    return take('"');
  }
  bool number() {
    const std::size_t end = rest_.find_first_not_of("-0123456789.");
    const std::size_t length = end == std::string_view::npos ? rest_.size() : end;
    rest_.remove_prefix(length);
    return length != 0;
  }

  std::string_view rest_;
};

class log_sinks : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "saeta_log_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path file() const { return folder_ / "log"; }
  [[nodiscard]] std::string content() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static log_record sample(memory_event kind = memory_event::allocate, std::uint64_t generation = 7) {
    log_record record;
    record.order = 1;
    record.time_ns = 1234567;
    record.event = kind;
    record.device = {device_kind::cuda, 1};
    record.thread = 2;
    record.stream = 3;
    record.bytes = 4096;
    record.address = 65536;
    record.generation = generation;
    record.label = "orders";
    record.account = "query";
    record.limit = 8192;
    record.outcome = "ok";
    record.reserved = 16;
    record.held = 32;
    return record;
  }
  static log_record awkward() {
    log_record record = sample(memory_event::refuse);
    record.label = "a,\"b\"\n\\c";
    record.account = "\x01 \xC3\xA9 \xFF \xED\xA0\x80"; // control character, e acute, invalid byte, surrogate
    record.outcome = "no\r\nroom";
    return record;
  }

private:
  std::filesystem::path folder_;
};

TEST_F(log_sinks, memory_keeps_the_last_records) {
  memory_sink sink(2);
  for (std::uint64_t generation = 1; generation <= 5; ++generation) {
    sink.write(sample(memory_event::free, generation));
  }
  ASSERT_EQ(sink.records().size(), 2u);
  EXPECT_EQ(sink.records()[0].generation, 4u);
  EXPECT_EQ(sink.records()[1].generation, 5u);
  EXPECT_EQ(sink.forgotten(), 3u);
}

TEST_F(log_sinks, csv_has_a_header_and_a_line_for_each_record) {
  const auto sink = make_csv_sink(file());
  sink->write(sample());
  sink->flush();
  EXPECT_EQ(content(),
            "order,time_ns,event,device,thread,stream,bytes,address,generation,tag,account,limit,outcome,"
            "reserved,held\n"
            "1,1234567,allocate,cuda:1,2,3,4096,65536,7,orders,query,8192,ok,16,32\n");
}

TEST_F(log_sinks, csv_quotes_text_with_commas_quotes_and_line_ends) {
  const auto sink = make_csv_sink(file());
  sink->write(awkward());
  sink->flush();
  EXPECT_THAT(content(), HasSubstr(",7,\"a,\"\"b\"\"\n\\c\","));
  EXPECT_THAT(content(), HasSubstr(",8192,\"no\r\nroom\",16,32\n"));
}

TEST_F(log_sinks, json_lines_are_objects_with_the_same_names) {
  const auto sink = make_json_lines_sink(file());
  sink->write(sample());
  sink->flush();
  EXPECT_EQ(content(),
            "{\"order\":1,\"time_ns\":1234567,\"event\":\"allocate\",\"device\":\"cuda:1\","
            "\"thread\":2,\"stream\":3,\"bytes\":4096,\"address\":65536,\"generation\":7,"
            "\"tag\":\"orders\",\"account\":\"query\",\"limit\":8192,\"outcome\":\"ok\",\"reserved\":16,"
            "\"held\":32}\n");
  EXPECT_TRUE(json_reader::accepts(content()));
}

TEST_F(log_sinks, json_escapes_controls_and_replaces_invalid_utf8) {
  const auto sink = make_json_lines_sink(file());
  sink->write(awkward());
  sink->flush();
  EXPECT_TRUE(json_reader::accepts(content()));
  EXPECT_THAT(content(), HasSubstr("\"tag\":\"a,\\\"b\\\"\\u000a\\\\c\""));
  EXPECT_THAT(content(), HasSubstr("\"account\":\"\\u0001 \xC3\xA9 \xEF\xBF\xBD "
                                   "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""));
}

TEST_F(log_sinks, a_trace_is_valid_json_when_empty_after_each_flush_and_at_the_end) {
  auto sink = make_trace_sink(file());
  sink->flush();
  EXPECT_TRUE(json_reader::accepts(content())) << content();
  for (const memory_event kind : {memory_event::allocate, memory_event::free, memory_event::refuse,
                                  memory_event::trim, memory_event::drain, memory_event::relief}) {
    log_record record = awkward();
    record.event = kind;
    sink->write(record);
    sink->flush();
    EXPECT_TRUE(json_reader::accepts(content())) << content();
  }
  sink->write(sample());
  sink.reset();
  EXPECT_TRUE(json_reader::accepts(content())) << content();
}

TEST_F(log_sinks, a_trace_counts_live_bytes_and_spans_each_block) {
  auto sink = make_trace_sink(file());
  sink->write(sample(memory_event::allocate, 1));
  sink->write(sample(memory_event::allocate, 2));
  sink->write(sample(memory_event::free, 1));
  sink.reset();
  const std::string text = content();
  EXPECT_THAT(
      text, HasSubstr("\"name\":\"process_name\",\"ph\":\"M\",\"pid\":2001,\"args\":{\"name\":\"cuda:1\"}"));
  EXPECT_THAT(text, HasSubstr("\"name\":\"live bytes\",\"ph\":\"C\",\"ts\":1234.567,\"pid\":2001,\"tid\":2,"
                              "\"args\":{\"bytes\":8192}"));
  EXPECT_THAT(text, HasSubstr("\"name\":\"live bytes: orders\",\"ph\":\"C\""));
  EXPECT_THAT(text, HasSubstr("\"name\":\"orders\",\"ph\":\"b\""));
  EXPECT_THAT(text, HasSubstr("\"name\":\"orders\",\"ph\":\"e\""));
  EXPECT_LT(text.find("{\"bytes\":8192}"), text.rfind("{\"bytes\":4096}")) << "the free is counted";
}

TEST_F(log_sinks, a_trace_is_exactly_these_lines) {
  {
    auto sink = make_trace_sink(file());
    log_record first = sample(memory_event::allocate, 1);
    first.time_ns = 5'000'001;
    sink->write(first);
    log_record second = sample(memory_event::allocate, 2);
    second.label = "";
    second.bytes = 100;
    sink->write(second);
    sink->flush(); // the next record overwrites the closing bracket
    sink->write(sample(memory_event::free, 1));
    log_record refused = sample(memory_event::refuse);
    refused.device = {device_kind::cpu, 0};
    refused.time_ns = 999;
    refused.outcome = "no room";
    sink->write(refused);
  }
  const std::string head = "\"pid\":2001,\"tid\":2,";
  const std::string tail = ",\"stream\":3,\"address\":65536,\"account\":\"query\"}}";
  const std::vector<std::string> lines{
      "[",
      R"({"name":"process_name","ph":"M","pid":2001,"args":{"name":"cuda:1"}},)",
      R"({"name":"orders","ph":"b","ts":5000.001,)" + head +
          R"("cat":"block","id":"1","args":{"bytes":4096)" + tail + ",",
      R"({"name":"live bytes","ph":"C","ts":5000.001,)" + head + R"("args":{"bytes":4096}},)",
      R"({"name":"live bytes: orders","ph":"C","ts":5000.001,)" + head + R"("args":{"bytes":4096}},)",
      R"-({"name":"(no tag)","ph":"b","ts":1234.567,)-" + head +
          R"("cat":"block","id":"2","args":{"bytes":100)" + tail + ",",
      R"({"name":"live bytes","ph":"C","ts":1234.567,)" + head + R"("args":{"bytes":4196}},)",
      R"-({"name":"live bytes: (no tag)","ph":"C","ts":1234.567,)-" + head + R"("args":{"bytes":100}},)",
      R"({"name":"orders","ph":"e","ts":1234.567,)" + head +
          R"("cat":"block","id":"1","args":{"bytes":4096)" + tail + ",",
      R"({"name":"live bytes","ph":"C","ts":1234.567,)" + head + R"("args":{"bytes":100}},)",
      R"({"name":"live bytes: orders","ph":"C","ts":1234.567,)" + head + R"("args":{"bytes":0}},)",
      R"({"name":"process_name","ph":"M","pid":1000,"args":{"name":"host"}},)",
      R"({"name":"refuse","ph":"i","ts":0.999,"pid":1000,"tid":2,"s":"p","cat":"memory","args":)"
      R"({"tag":"orders","bytes":4096,"stream":3,"account":"query","limit":8192,"outcome":"no room"}})",
      "]",
      "",
  };
  std::string expected;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    expected += (i == 0 ? "" : "\n") + lines[i];
  }
  EXPECT_EQ(content(), expected);
}

TEST_F(log_sinks, a_trace_leaves_out_frees_of_earlier_blocks) {
  auto sink = make_trace_sink(file());
  sink->write(sample(memory_event::free));
  sink.reset();
  EXPECT_EQ(content().find("\"ph\":\"e\""), std::string::npos);
  EXPECT_EQ(content().find("live bytes"), std::string::npos);
  EXPECT_TRUE(json_reader::accepts(content()));
}

TEST_F(log_sinks, are_made_from_their_description) {
  static_cast<void>(make_sink("csv:" + file().string()));
  EXPECT_THAT(content(), HasSubstr("order,time_ns"));
  static_cast<void>(make_sink("jsonl:" + file().string()));
  EXPECT_EQ(content(), "") << "a sink starts its file afresh";
  static_cast<void>(make_sink("trace:" + file().string()));
  EXPECT_TRUE(json_reader::accepts(content()));
}

TEST_F(log_sinks, an_unknown_description_is_refused_by_its_text) {
  for (const std::string text : {"", "csv", "csv:", "xml:/tmp/x", ":x"}) {
    try {
      static_cast<void>(make_sink(text));
      ADD_FAILURE() << text;
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::invalid_argument);
      EXPECT_THAT(refused.message(), HasSubstr("'" + text + "'"));
    }
  }
}

TEST_F(log_sinks, a_file_that_cannot_be_opened_is_named) {
  const std::string missing = (file() / "below" / "nothing").string();
  for (const std::string format : {"csv:", "jsonl:", "trace:"}) {
    try {
      static_cast<void>(make_sink(format + missing));
      ADD_FAILURE() << format;
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::io);
      EXPECT_THAT(refused.message(), HasSubstr(missing));
    }
  }
}

TEST_F(log_sinks, a_full_disk_only_drops_records) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "this system has no /dev/full";
  }
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  for (const std::string format : {"csv:", "jsonl:", "trace:"}) {
    event_log log;
    log.attach(make_sink(format + "/dev/full"));
    constexpr std::uint64_t records = 5000; // more bytes than the buffer of a file
    for (std::uint64_t i = 1; i <= records; ++i) {
      log.write(sample(memory_event::allocate, i));
    }
    log.flush();
    EXPECT_GT(log.dropped(), 0u) << format;
    EXPECT_LE(log.dropped(), records) << format;
  }
  set_report_sink(before);
}

} // namespace
} // namespace saeta
