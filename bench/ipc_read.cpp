// Measures how fast an Arrow file in memory is read into the best device and written back, and compares both
// with the limits of the machine.
//
//   ipc_read [--gib N] [--batch-mib N] [--rounds N] [--dir FOLDER] [--out FILE.json] [--commit TEXT]
//
// Writes a file of N GiB (default 0.25) of random float64, int64 and int32 columns. Each round then measures
// the rate P of a copy from pinned memory, a plain memcpy on the host, file -> device, device -> file, and
// file -> views on the host. Prints medians and spread, and writes them with machine, versions, commit and
// command as JSON. Rates are in 1e9 bytes per second. The data on the device is compared with the written
// data.

#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/runtime/runtime.hpp"
#include "saeta/transfer/download.hpp"
#include "support/quantile.hpp"
#include "support/result_file.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include <unistd.h>

namespace {

using namespace saeta;
using namespace saeta::bench;

struct options {
  double gib = 0.25;
  double batch_mib = 256;
  int rounds = 5;
  std::filesystem::path folder;
  run_options run;
};

struct leg {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<double> seconds;

  [[nodiscard]] double median() const { return quantile(seconds, 0.5); }
  [[nodiscard]] double rate(double time) const { return static_cast<double>(bytes) / time / 1e9; }
};

options parse(int count, char** arguments) {
  options chosen;
  chosen.folder = memory_folder();
  command_line line(count, arguments);
  line.read("--gib", chosen.gib);
  line.read("--batch-mib", chosen.batch_mib);
  line.read("--rounds", chosen.rounds);
  line.read("--dir", chosen.folder);
  chosen.run = read_run_options(line);
  line.finish();
  if (chosen.rounds < 1) {
    throw error(errc::invalid_argument, "option --rounds: expected at least 1");
  }
  return chosen;
}

/// The random generator splitmix64, which is faster than memory.
class random_words {
public:
  explicit random_words(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() noexcept {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

private:
  std::uint64_t state_;
};

column random_column(const std::shared_ptr<context>& host, type_id type, std::int64_t rows,
                     std::uint64_t seed) {
  const data_type described(type);
  const auto bytes = static_cast<std::size_t>(rows * described.byte_width());
  const buffer values = buffer::allocate(host, bytes, host->work_stream(), "bench");
  use_token token(host->work_stream(), {writes(values)});
  auto* const target = token.span<std::byte>(values).data();
  random_words random(seed);
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = random();
    if (type == type_id::float64) { // in [1, 2): no NaN, which is not equal to itself
      word = (word >> 12) | 0x3FF0000000000000;
    }
    std::memcpy(target + at, &word, std::min(sizeof word, bytes - at));
  }
  token.finish();
  return column::make(host, {described, rows, 0, 0, {buffer{}, values}, {}});
}

table random_table(const std::shared_ptr<context>& host, const options& chosen) {
  constexpr std::array types{type_id::float64, type_id::float64, type_id::int64,
                             type_id::int64,   type_id::int32,   type_id::int32};
  constexpr double row_bytes = 40;
  schema fields;
  for (std::size_t c = 0; c < types.size(); ++c) {
    fields.fields.push_back({concat("c", c), data_type(types[c]), true, {}});
  }
  const auto rows = static_cast<std::int64_t>(chosen.gib * 0x1p30 / row_bytes);
  const auto batch_rows =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(chosen.batch_mib * 0x1p20 / row_bytes));
  std::vector<batch> batches;
  for (std::int64_t first = 0; first < rows; first += batch_rows) {
    batch& next = batches.emplace_back();
    next.rows = std::min(batch_rows, rows - first);
    for (std::size_t c = 0; c < types.size(); ++c) {
      next.columns.push_back(
          random_column(host, types[c], next.rows, static_cast<std::uint64_t>(first) * 8 + c + 1));
    }
  }
  return table::make(host, fields, std::move(batches));
}

/// Waits until all copies into the table's buffers have finished.
void settle(const table& arrived) {
  const auto& ctx = arrived.ctx();
  std::vector<use> uses;
  for (const batch& each : arrived.batches()) {
    for (const column& column : each.columns) {
      uses.push_back(reads(column.values()));
    }
  }
  use_token token(ctx->work_stream(), uses);
  token.finish();
  ctx->synchronize(ctx->work_stream());
}

void require_equal(const table& seen, const table& expected) {
  bool equal = seen.rows() == expected.rows() && seen.batches().size() == expected.batches().size();
  for (std::size_t b = 0; equal && b < expected.batches().size(); ++b) {
    const host_batch here = download(seen.ctx(), seen.batches()[b]);
    const host_batch there = download(expected.ctx(), expected.batches()[b]);
    for (std::size_t c = 0; equal && c < there.arrays.size(); ++c) {
      const host_array& a = here.arrays[c];
      const host_array& e = there.arrays[c];
      const auto width = static_cast<std::size_t>(e.type.byte_width());
      equal = a.length == e.length &&
              std::memcmp(a.buffers[1].data() + static_cast<std::size_t>(a.offset) * width,
                          e.buffers[1].data(), static_cast<std::size_t>(e.length) * width) == 0;
    }
  }
  if (!equal) {
    throw error(errc::format, "what arrived is not what was written");
  }
}

template <class Action>
void time(leg& measured, const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  measured.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

/// The plain copies that limit every read: from pinned memory to the device, and from host to host.
class limits {
public:
  static constexpr std::size_t bytes = std::size_t{256} << 20;

  explicit limits(std::shared_ptr<context> device)
      : device_(std::move(device)), pinned_(device_->pinned().allocate(bytes, 0, device_->work_stream())),
        target_(buffer::allocate(device_, bytes, device_->work_stream(), "bench")), source_(bytes),
        copy_(bytes) {
    random_words random(1);
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(source_.data() + at, &word, sizeof word);
    }
    std::memcpy(pinned_.pointer, source_.data(), bytes);
  }
  limits(const limits&) = delete;
  limits& operator=(const limits&) = delete;
  ~limits() {
    if (!device_->pinned().deallocate(pinned_, device_->work_stream())) {
      std::cerr << "the pinned memory could not be freed\n";
    }
  }

  void pinned_copy() {
    const auto stream = device_->work_stream();
    use_token token(stream, {writes(target_)});
    device_->copies().copy(token.span<std::byte>(target_).data(), pinned_.pointer, bytes,
                           device_->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device, stream);
    token.finish();
    device_->synchronize(stream);
  }
  void host_copy() {
    std::memcpy(copy_.data(), source_.data(), bytes);
    if (copy_[bytes / 2] != source_[bytes / 2]) {
      throw error(errc::format, "memcpy copied nothing");
    }
  }

private:
  std::shared_ptr<context> device_;
  block pinned_;
  buffer target_;
  std::vector<std::byte> source_;
  std::vector<std::byte> copy_;
};

/// A path for a temporary file, which the destructor removes.
class scratch_file {
public:
  explicit scratch_file(const std::filesystem::path& folder, std::string_view name)
      : path_(folder / concat("saeta-bench-", ::getpid(), "-", name, ".arrow")) {}
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  ~scratch_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
  std::filesystem::path path_;
};

struct results {
  leg pinned{"pinned -> device (P)", limits::bytes, {}};
  leg host{"memcpy, one thread", limits::bytes, {}};
  leg read{"file -> device", 0, {}};
  leg write{"device -> file", 0, {}};
  leg view{"file -> host views", 0, {}};
  std::uint64_t file_bytes = 0;
  std::size_t batches = 0;
  traffic moved; ///< copies and bytes of one read

  [[nodiscard]] std::array<const leg*, 5> legs() const { return {&pinned, &host, &read, &write, &view}; }
};

results measure(const options& chosen, const std::shared_ptr<context>& device,
                const std::shared_ptr<context>& host) {
  const scratch_file file(chosen.folder, "in");
  const scratch_file back(chosen.folder, "out");
  results found;
  const table original = random_table(host, chosen);
  found.file_bytes = ipc::write(original, file.path());
  found.batches = original.batches().size();
  found.read.bytes = found.write.bytes = found.view.bytes = original.byte_size();

  const auto read = [&](const std::shared_ptr<context>& ctx, copy_policy copy) {
    table seen = ipc::reader::open(file.path(), {.copy = copy})->read_all(ctx);
    settle(seen);
    return seen;
  };
  limits machine(device);
  device->copies().reset_counters();
  // Warm-up: the first read creates the staging ring and the pools.
  require_equal(read(device, copy_policy::always), original);
  const counter_values counted = device->copies().read_counters();
  found.moved = device->on_host() ? counted.host_to_host : counted.host_to_device;

  for (int round = 0; round < chosen.rounds; ++round) {
    time(found.pinned, [&] { machine.pinned_copy(); });
    time(found.host, [&] { machine.host_copy(); });
    std::optional<table> arrived;
    time(found.read, [&] { arrived = read(device, copy_policy::always); });
    time(found.write, [&] { ipc::write(*arrived, back.path()); });
    arrived.reset();
    device->wait_for_releases(std::chrono::seconds(10));
    time(found.view, [&] { static_cast<void>(read(host, copy_policy::when_needed)); });
  }
  const table again = ipc::reader::open(back.path())->read_all(host);
  require_equal(again, original);
  return found;
}

void print(const results& found) {
  const double limit = found.pinned.rate(found.pinned.median());
  std::cout << std::left << std::setw(24) << "leg" << std::right << std::setw(10) << "GB/s" << std::setw(20)
            << "spread" << std::setw(10) << "of P" << '\n'
            << std::fixed << std::setprecision(2);
  for (const leg* each : found.legs()) {
    const auto [least, most] = std::minmax_element(each->seconds.begin(), each->seconds.end());
    const double rate = each->rate(each->median());
    std::ostringstream spread;
    spread << std::fixed << std::setprecision(2) << each->rate(*most) << " - " << each->rate(*least);
    std::cout << std::left << std::setw(24) << each->name << std::right << std::setw(10) << rate
              << std::setw(20) << spread.str() << std::setw(9) << rate / limit * 100 << "%\n";
  }
  std::cout << "one read moved " << found.moved.bytes << " bytes in " << found.moved.transfers
            << " transfers for " << found.batches << " batches (" << found.moved.calls << " copies)\n";
}

json_object as_json(const options& chosen, const results& found, device_id device) {
  json_object file = describe_run("ipc_read", chosen.run, device, {});
  const double limit = found.pinned.rate(found.pinned.median());
  std::vector<json_object> legs;
  for (const leg* each : found.legs()) {
    const double rate = each->rate(each->median());
    legs.emplace_back()
        .add("name", each->name)
        .add("bytes", each->bytes)
        .add("gb_per_second", rate)
        .add("share_of_pinned", rate / limit)
        .add("seconds", each->seconds);
  }
  return file.add("file_bytes", found.file_bytes)
      .add("batches", found.batches)
      .add("read", json_object()
                       .add("transfers", found.moved.transfers)
                       .add("calls", found.moved.calls)
                       .add("bytes", found.moved.bytes))
      .add("legs", legs);
}

} // namespace

int main(int count, char** arguments) {
  try {
    const options chosen = parse(count, arguments);
    const device_id device = best_device();
    const results found = measure(chosen, open_context(device), open_context({device_kind::cpu, 0}));
    std::cout << "ipc_read on " << to_string(device) << ", " << human_bytes(found.file_bytes) << " in "
              << found.batches << " batches, medians of " << chosen.rounds << '\n';
    print(found);
    write_result(chosen.run, as_json(chosen, found, device));
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << "ipc_read: " << failure.what() << '\n';
    return 1;
  }
}
