#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace saeta {
namespace {

using support::nulls;
using support::random_array;
using support::shared_array;

/// A producer of a stream. Tests can make each of its callbacks fail.
struct producer {
  schema fields;
  std::vector<std::vector<shared_array>> batches; ///< children of each batch
  std::size_t next = 0;
  int fails_at_schema = 0;
  int fails_at_next = 0; ///< errno that get_next returns instead of the last batch
  const char* last_error = nullptr;
  int releases = 0;
  std::shared_ptr<std::atomic<int>> released_arrays = std::make_shared<std::atomic<int>>(0);

  ArrowArrayStream stream() {
    ArrowArrayStream made{};
    made.private_data = this;
    made.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
      producer& from = of(self);
      if (from.fails_at_schema == 0) {
        *out = export_schema(from.fields).release();
      }
      return from.fails_at_schema;
    };
    made.get_next = [](ArrowArrayStream* self, ArrowArray* out) { return of(self).give_next(*out); };
    made.get_last_error = [](ArrowArrayStream* self) { return of(self).last_error; };
    made.release = [](ArrowArrayStream* self) {
      ++of(self).releases;
      self->release = nullptr;
    };
    return made;
  }

private:
  static producer& of(ArrowArrayStream* self) { return *static_cast<producer*>(self->private_data); }

  int give_next(ArrowArray& out) {
    if (fails_at_next != 0 && next + 1 == batches.size()) {
      return fails_at_next;
    }
    out = ArrowArray{};
    if (next < batches.size()) {
      const auto& children = batches[next++];
      out = support::to_c_batch(children, children.front()->length, 0, released_arrays).release();
    }
    return 0;
  }
};

class streams : public ::testing::Test {
protected:
  void SetUp() override {
    source_.fields = {
        {{"a", data_type(type_id::int64), true, {}}, {"b", data_type(type_id::string), true, {}}},
        {{"k", "v"}}};
    for (const std::int64_t rows : {3, 0, 70}) {
      source_.batches.push_back({random_array(data_type(type_id::int64), {rows, 1, nulls::some, true}, 1),
                                 random_array(data_type(type_id::string), {rows, 2, nulls::some, false}, 2)});
    }
  }

  [[nodiscard]] error import_error(ArrowArrayStream stream) const {
    try {
      static_cast<void>(import_stream(ctx_, stream));
    } catch (const error& seen) {
      EXPECT_EQ(stream.release, nullptr) << "the stream was taken";
      return seen;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {errc::invalid_argument, ""};
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
  producer source_;
};

TEST_F(streams, are_read_to_their_end_and_released_once) {
  ArrowArrayStream stream = source_.stream();
  std::vector<std::int64_t> heard;
  {
    const table seen = import_stream(ctx_, stream, {}, [&](std::int64_t rows) { heard.push_back(rows); });
    EXPECT_EQ(seen.fields(), source_.fields);
    EXPECT_EQ(seen.rows(), 73);
    EXPECT_EQ(seen.batches().size(), 3U);
    EXPECT_EQ(heard, (std::vector<std::int64_t>{3, 3, 73}));
    EXPECT_EQ(source_.releases, 1);
    EXPECT_EQ(stream.release, nullptr);
    EXPECT_EQ(*source_.released_arrays, 1) << "a batch without rows has nothing to keep";
  }
  EXPECT_TRUE(ctx_->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(*source_.released_arrays, 3);
}

TEST_F(streams, without_batches_keep_their_schema) {
  source_.batches.clear();
  ArrowArrayStream stream = source_.stream();
  const table seen = import_stream(ctx_, stream);
  EXPECT_EQ(seen.fields(), source_.fields);
  EXPECT_EQ(seen.rows(), 0);
}

TEST_F(streams, fail_with_the_callbacks_name_errno_and_text) {
  source_.fails_at_next = EIO;
  source_.last_error = "the disk is gone";
  const error seen = import_error(source_.stream());
  EXPECT_EQ(seen.code(), errc::io);
  EXPECT_EQ(seen.error_number(), EIO);
  EXPECT_EQ(seen.message(),
            "ArrowArrayStream: get_next failed with errno 5 (Input/output error): the disk is gone");
  EXPECT_EQ(source_.releases, 1);
  EXPECT_EQ(*source_.released_arrays, 2) << "the batches before the failure";
}

TEST_F(streams, may_fail_without_an_error_text) {
  source_.fails_at_schema = EIO;
  constexpr const char* expected = "ArrowArrayStream: get_schema failed with errno 5 (Input/output error)";
  EXPECT_EQ(import_error(source_.stream()).message(), expected);
  ArrowArrayStream silent = source_.stream();
  silent.get_last_error = nullptr;
  EXPECT_EQ(import_error(silent).message(), expected);
}

TEST_F(streams, that_return_a_released_schema_or_one_without_a_format_are_refused) {
  ArrowArrayStream stream = source_.stream();
  stream.get_schema = [](ArrowArrayStream*, ArrowSchema*) { return 0; };
  EXPECT_EQ(import_error(stream).code(), errc::closed);
  stream = source_.stream();
  stream.get_schema = [](ArrowArrayStream*, ArrowSchema* out) {
    out->release = [](ArrowSchema* schema) { schema->release = nullptr; };
    return 0;
  };
  const error seen = import_error(stream);
  EXPECT_EQ(seen.message(), "column '': format is null");
}

TEST_F(streams, map_each_errno_to_a_code) {
  for (const auto& [number, code] :
       {std::pair{ENOMEM, errc::out_of_memory}, std::pair{EINVAL, errc::format},
        std::pair{ENOSYS, errc::unsupported}, std::pair{EAGAIN, errc::exchange}}) {
    source_.fails_at_schema = number;
    const error seen = import_error(source_.stream());
    EXPECT_EQ(seen.code(), code);
    EXPECT_NE(seen.message().find("get_schema failed with errno " + std::to_string(number)),
              std::string::npos);
  }
  EXPECT_EQ(source_.releases, 4);
}

TEST_F(streams, with_a_broken_batch_are_released_with_their_arrays) {
  source_.batches[2].pop_back();
  const error seen = import_error(source_.stream());
  EXPECT_EQ(seen.code(), errc::format);
  EXPECT_NE(seen.message().find("n_children is 1, expected 2"), std::string::npos) << seen.message();
  EXPECT_EQ(source_.releases, 1);
  EXPECT_EQ(*source_.released_arrays, 3);
}

TEST_F(streams, are_released_if_the_progress_callback_throws) {
  ArrowArrayStream stream = source_.stream();
  EXPECT_THROW(import_stream(ctx_, stream, {}, [](std::int64_t) { throw std::runtime_error("stop"); }),
               std::runtime_error);
  EXPECT_EQ(source_.releases, 1);
}

TEST_F(streams, that_were_released_or_lack_callbacks_are_refused) {
  EXPECT_EQ(import_error({}).code(), errc::closed);
  ArrowArrayStream stream = source_.stream();
  stream.get_next = nullptr;
  EXPECT_EQ(import_error(stream).code(), errc::format);
  EXPECT_EQ(source_.releases, 1);
}

TEST_F(streams, of_exported_tables_round_trip_and_can_be_polled_after_their_end) {
  ArrowArrayStream first = source_.stream();
  arrow_stream exported = export_stream(import_stream(ctx_, first));
  arrow_schema type;
  ASSERT_EQ(exported.get().get_schema(&exported.get(), type.out()), 0);
  EXPECT_EQ(import_schema(type.get()), source_.fields);
  for (const auto& children : source_.batches) {
    arrow_array chunk;
    ASSERT_EQ(exported.get().get_next(&exported.get(), chunk.out()), 0);
    ASSERT_EQ(chunk.get().n_children, 2);
    EXPECT_TRUE(support::same_rows(*chunk.get().children[0], *children[0]));
    EXPECT_TRUE(support::same_rows(*chunk.get().children[1], *children[1]));
  }
  for (int again = 0; again < 2; ++again) {
    arrow_array end;
    EXPECT_EQ(exported.get().get_next(&exported.get(), end.out()), 0);
    EXPECT_TRUE(end.empty());
  }
  EXPECT_EQ(exported.get().get_last_error(&exported.get()), nullptr);
}

TEST_F(streams, that_are_exported_outlive_the_table_and_the_context) {
  arrow_stream exported;
  {
    ArrowArrayStream first = source_.stream();
    exported = export_stream(import_stream(ctx_, first));
    ctx_.reset();
  }
  arrow_array chunk;
  ASSERT_EQ(exported.get().get_next(&exported.get(), chunk.out()), 0);
  exported.reset();
  EXPECT_TRUE(support::same_rows(*chunk.get().children[1], *source_.batches[0][1]));
}

TEST_F(streams, turn_exceptions_into_errno_and_text) {
  arrow_stream exported;
  const schema unspeakable{{{std::string("a\0b", 3), data_type(type_id::int32), true, {}}}, {}};
  exported = export_stream(table::make(ctx_, unspeakable, {}));
  arrow_schema type;
  EXPECT_EQ(exported.get().get_schema(&exported.get(), type.out()), EINVAL);
  const char* const text = exported.get().get_last_error(&exported.get());
  ASSERT_NE(text, nullptr);
  EXPECT_EQ(std::string(text).rfind("exchange: export of name 'a'", 0), 0U) << text;
  EXPECT_TRUE(type.empty());
}

TEST_F(streams, of_plain_arrays_become_tables_of_one_column) {
  const field described{"x", data_type(type_id::int64), false, {{"k", "v"}}};
  std::vector<column> pieces;
  for (const auto& children : source_.batches) {
    arrow_array one = support::to_c(children[0]);
    pieces.push_back(import_column(ctx_, described, one.get()));
  }
  arrow_stream exported = export_stream(described, pieces);
  ArrowArrayStream taken = exported.release();
  const table seen = import_stream(ctx_, taken);
  EXPECT_EQ(seen.fields(), (schema{{described}, {}}));
  EXPECT_EQ(seen.rows(), 73);
  EXPECT_EQ(seen.pieces(0).size(), 3U);
}

/// Gives each batch a new dictionary, and reuses the memory of the previous one as soon as it is released.
struct recycling_producer {
  static constexpr std::int64_t batches = 5;
  data_type type = data_type::dictionary(data_type(type_id::int8), data_type(type_id::int16));
  std::shared_ptr<support::plain_array> dictionary;
  std::int64_t next = 0;
  std::vector<shared_array> expected;

  ArrowArrayStream stream() {
    ArrowArrayStream made{};
    made.private_data = this;
    made.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
      *out =
          export_field({"x", static_cast<recycling_producer*>(self->private_data)->type, true, {}}).release();
      return 0;
    };
    made.get_next = [](ArrowArrayStream* self, ArrowArray* out) {
      static_cast<recycling_producer*>(self->private_data)->give_next(*out);
      return 0;
    };
    made.release = [](ArrowArrayStream* self) { self->release = nullptr; };
    return made;
  }

private:
  void give_next(ArrowArray& out) {
    out = ArrowArray{};
    if (next == batches) {
      return;
    }
    const auto seed = static_cast<std::uint64_t>(++next);
    const shared_array content = random_array(data_type(type_id::int16), {20, 0, nulls::absent, true}, seed);
    expected.push_back(content);
    if (dictionary && dictionary.use_count() == 1) {
      std::copy(content->buffers[1].begin(), content->buffers[1].end(), dictionary->buffers[1].begin());
    } else {
      dictionary = std::make_shared<support::plain_array>(*content);
    }
    out = support::to_c(support::random_indices(type, {9, 0, nulls::absent, true}, dictionary, 1)).release();
  }
};

TEST_F(streams, never_mistake_a_new_dictionary_for_an_old_one_at_its_address) {
  recycling_producer recycling;
  ArrowArrayStream stream = recycling.stream();
  import_options copied;
  copied.copy = copy_policy::always; // so that columns do not keep the batch alive
  const table seen = import_stream(ctx_, stream, copied);
  ASSERT_EQ(seen.batches().size(), recycling.expected.size());
  for (std::size_t i = 0; i < recycling.expected.size(); ++i) {
    arrow_array exported = export_column(*seen.batches()[i].columns[0].dictionary());
    EXPECT_TRUE(support::same_rows(exported.get(), *recycling.expected[i])) << "batch " << i;
  }
}

TEST_F(streams, with_arrays_of_another_type_are_refused) {
  arrow_array one = support::to_c(source_.batches[0][0]);
  const column piece = import_column(ctx_, source_.fields.fields[0], one.get());
  ArrowArrayStream target{};
  EXPECT_THROW(target = export_stream({"x", data_type(type_id::int32), true, {}}, {piece}).release(), error);
  EXPECT_EQ(target.release, nullptr);
}

} // namespace
} // namespace saeta
