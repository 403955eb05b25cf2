// A full round trip: reads an Arrow file into device memory under a budget, computes a new column from a
// float column with a user's kernel, writes the table with that column, reads it again and checks it.
//   trip INPUT.arrow OUTPUT.arrow COLUMN    by default, with a small generated file
#include "saeta/base/text.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/runtime/runtime.hpp"
#include "scale.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>

using namespace saeta;

const data_type float32(type_id::float32);
constexpr device_id host{device_kind::cpu, 0};

std::filesystem::path make_file() {
  const auto file = std::filesystem::temp_directory_path() / "saeta-trip.arrow";
  const auto ctx = open_context(host);
  const auto values = ctx->allocate<float>(100'000);
  use_token token(ctx->work_stream(), {writes(values)});
  const std::span<float> prices = token.span<float>(values);
  std::iota(prices.begin(), prices.end(), 1.0F);
  token.finish();
  const batch all{100'000, {column::make(ctx, {float32, 100'000, 0, 0, {{}, values}, {}})}};
  ipc::write(table::make(ctx, {{{"price", float32, false, {}}}, {}}, {all}), file);
  return file;
}

column scaled(const column& in) {
  const auto stream = in.ctx()->work_stream();
  const auto out = buffer::allocate(in.ctx(), in.values().size(), stream, "scaled");
  use_token token(stream, {reads(in.values()), writes(out)});
  scale(stream, token.span<const float>(in.values()).data(), in.offset() + in.length(),
        token.span<float>(out).data());
  token.finish();
  const std::int64_t nulls = in.known_null_count(); // both columns have the same offset and share the bitmap
  return column::make(in.ctx(), {float32, in.length(), in.offset(), nulls, {in.validity(), out}, {}});
}

bool is_scaled(const column& out, const column& in) {
  const use_token token(in.ctx()->work_stream(), {reads(in.values()), reads(out.values())});
  const auto rows_of = [&](const column& of) {
    return token.span<const float>(of.values())
        .subspan(static_cast<std::size_t>(of.offset()), static_cast<std::size_t>(of.length()));
  };
  return std::ranges::equal(rows_of(in), rows_of(out),
                            [](float a, float b) { return b == scale_factor * a || (a != a && b != b); });
}

int trip(const std::filesystem::path& input, const std::filesystem::path& output, const std::string& name) {
  const auto ctx = open_context(scale_knows_cuda() ? best_device() : host);
  ctx->memory_budget()->set_limit(parse_bytes("1GiB")); // for the process; libraries use with_budget
  const table read = ipc::reader::open(input)->read_all(ctx);
  schema fields = read.fields();
  const std::size_t source = fields.index_of(name);
  if (fields.fields[source].type != float32) {
    throw error(errc::type_mismatch, "column " + name + " is no float column");
  }
  fields.fields.push_back({"scaled", float32, true, {}});
  std::vector<batch> batches(read.batches().begin(), read.batches().end());
  for (batch& b : batches) {
    b.columns.push_back(scaled(b.columns[source]));
  }
  ipc::write(table::make(ctx, fields, batches), output);
  const counter_values count = ctx->copies().read_counters();
  const table back = ipc::reader::open(output)->read_all(open_context(host));
  const auto same = [&](const batch& b) { return is_scaled(b.columns.back(), b.columns[source]); };
  const bool right =
      back.fields() == fields && back.rows() == read.rows() && std::ranges::all_of(back.batches(), same);
  std::cout << to_string(ctx->device()) << (right ? ": right, " : ": WRONG, ")
            << count.host_to_device.transfers << " transfers in, " << count.device_to_host.transfers
            << " out, peak " << human_bytes(ctx->reports().statistics().budget.peak) << '\n';
  return right ? 0 : 1;
}

int main(int count, char** words) try {
  const std::filesystem::path input = count > 1 ? words[1] : make_file();
  return trip(input, count > 2 ? words[2] : input.string() + ".scaled", count > 3 ? words[3] : "price");
} catch (const std::exception& e) {
  std::cerr << "trip: " << e.what() << '\n';
  return 1;
}
