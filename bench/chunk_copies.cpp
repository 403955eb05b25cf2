// Measures how close a sequence of copies from page-locked chunks comes to the rate of the link. Compares how
// the host learns that a copy has finished and its slot is free (`notice`), and where the kernel runs that
// scatters the pieces of a chunk to their final addresses (`scattering`).
//
//   chunk_copies [--chunks N] [--slots N] [--chunk-mib N] [--piece-kib N] [--threads N,...] [--rounds N]
//                [--dir FOLDER] [--out FILE.json] [--commit TEXT]
//
// The staging ring's design rests on these numbers (docs/decisions/whole-reads.md). By default 64 chunks of
// 4 MiB pass through 16 page-locked slots to the best device. With 0 threads the slots are not filled and the
// main thread sends them, which shows the limit of the device. With more threads, each thread reads its slice
// of every chunk from a file in FOLDER, and the last one to finish sends the chunk. In each round all
// variants run one after the other. Rates are medians of the rounds, in 1e9 bytes per second.

#include "chunk_copies/filling.hpp"
#include "chunk_copies/sender.hpp"
#include "saeta/runtime/runtime.hpp"
#include "support/quantile.hpp"
#include "support/result_file.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>

namespace {

using namespace saeta;
using namespace saeta::bench;

struct options {
  sizes all;
  std::vector<std::size_t> threads{0};
  int rounds = 3;
  std::filesystem::path folder;
  run_options run;
};

struct measured {
  send_mode sends;
  std::size_t threads = 0;
  std::vector<double> seconds;
};

options parse(int count, char** arguments) {
  options chosen;
  chosen.folder = memory_folder();
  std::size_t chunk_mib = 4;
  std::size_t piece_kib = 64;
  command_line line(count, arguments);
  line.read("--chunks", chosen.all.chunks);
  line.read("--slots", chosen.all.slots);
  line.read("--chunk-mib", chunk_mib);
  line.read("--piece-kib", piece_kib);
  line.read("--threads", chosen.threads);
  line.read("--rounds", chosen.rounds);
  line.read("--dir", chosen.folder);
  chosen.run = read_run_options(line);
  line.finish();
  chosen.all.chunk_bytes = chunk_mib << 20;
  chosen.all.piece_bytes = piece_kib << 10;
  if (chosen.rounds < 1 || chosen.all.chunks == 0 || chunk_mib == 0 || piece_kib == 0 ||
      chosen.all.chunk_bytes % chosen.all.piece_bytes != 0) {
    throw error(errc::invalid_argument, "at least one round and one chunk, and whole pieces in a chunk");
  }
  if (chosen.all.slots < 8) { // with one word for two chunks, a chunk may wait for the next one of its stream
    throw error(errc::invalid_argument, "option --slots: expected at least 8");
  }
  return chosen;
}

std::vector<send_mode> all_modes() {
  std::vector<send_mode> modes;
  for (const std::size_t streams : {std::size_t{1}, std::size_t{2}}) {
    for (const scattering kernel : {scattering::none, scattering::behind, scattering::aside}) {
      for (const notice learns :
           {notice::none, notice::words, notice::every_other, notice::events, notice::kernels}) {
        modes.push_back({learns, kernel, streams});
      }
    }
  }
  return modes;
}

template <class Action>
double seconds_of(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Times copies of the same total number of bytes, each as large as all slots together: the rate of the link.
double seconds_of_large_copies(const chunk_memory& memory) {
  backend& device = memory.device();
  const sizes& all = memory.all();
  const std::size_t most = std::min(all.slots * memory.slot_bytes(), all.chunks * all.chunk_bytes);
  const stream_handle stream = device.create_stream();
  const double seconds = seconds_of([&] {
    for (std::size_t left = all.chunks * all.chunk_bytes; left != 0;) {
      const std::size_t bytes = std::min(left, most);
      device.copy(memory.target(0), memory.slot(0), bytes, memory.kind(), stream);
      left -= bytes;
    }
    device.synchronize_stream(stream);
  });
  device.destroy_stream(stream);
  return seconds;
}

double seconds_of_mode(chunk_memory& memory, const measured& of, const source_file* source) {
  sender sends(memory, of.sends);
  const double seconds = seconds_of([&] {
    if (of.threads == 0) {
      send_unfilled(memory, sends);
    } else {
      send_filled(memory, sends, *source, of.threads);
    }
    sends.finish();
  });
  sends.require_last();
  return seconds;
}

struct results {
  std::vector<double> large; ///< seconds of large copies
  std::vector<measured> modes;
  std::size_t bytes = 0;

  [[nodiscard]] double rate(const std::vector<double>& seconds) const {
    return static_cast<double>(bytes) / quantile(seconds, 0.5) / 1e9;
  }
};

results measure(const options& chosen, const std::shared_ptr<context>& ctx) {
  chunk_memory memory(ctx->device_backend(), chosen.all);
  results found;
  found.bytes = chosen.all.chunks * chosen.all.chunk_bytes;
  std::optional<source_file> source;
  for (const std::size_t threads : chosen.threads) {
    if (threads != 0 && !source) {
      source.emplace(chosen.folder, found.bytes);
    }
    for (const send_mode& each : all_modes()) {
      if (threads == 0 || each.learns != notice::none) { // only a notice says that a slot is free
        found.modes.push_back({each, threads, {}});
      }
    }
  }
  seconds_of_large_copies(memory); // warm-up: one-time initialisation is not timed
  for (int round = 0; round < chosen.rounds; ++round) {
    found.large.push_back(seconds_of_large_copies(memory));
    for (measured& each : found.modes) {
      each.seconds.push_back(seconds_of_mode(memory, each, source ? &*source : nullptr));
    }
  }
  return found;
}

void print(const results& found) {
  const double limit = found.rate(found.large);
  std::cout << std::fixed << std::setprecision(1) << "large copies: " << limit << " GB/s\n"
            << std::left << std::setw(64) << "mode" << std::right << std::setw(8) << "threads" << std::setw(8)
            << "GB/s" << std::setw(8) << "%" << '\n';
  for (const measured& each : found.modes) {
    const double rate = found.rate(each.seconds);
    std::cout << std::left << std::setw(64) << each.sends.name() << std::right << std::setw(8) << each.threads
              << std::setw(8) << rate << std::setw(8) << rate / limit * 100 << '\n';
  }
}

json_object as_json(const options& chosen, const results& found, device_id device) {
  json_object file = describe_run("chunk_copies", chosen.run, device);
  std::vector<json_object> lines;
  for (const measured& each : found.modes) {
    lines.emplace_back()
        .add("way", each.sends.name())
        .add("threads", each.threads)
        .add("gb_per_second", found.rate(each.seconds))
        .add("seconds", each.seconds);
  }
  return file.add("chunk_bytes", chosen.all.chunk_bytes)
      .add("chunks", chosen.all.chunks)
      .add("slots", chosen.all.slots)
      .add("piece_bytes", chosen.all.piece_bytes)
      .add("large_copies_gb_per_second", found.rate(found.large))
      .add("ways", lines);
}

} // namespace

int main(int count, char** arguments) {
  try {
    const options chosen = parse(count, arguments);
    const device_id device = best_device();
    const auto ctx = open_context(device);
    const results found = measure(chosen, ctx);
    std::cout << "chunk_copies on " << to_string(device) << ", medians of " << chosen.rounds << '\n';
    print(found);
    write_result(chosen.run, as_json(chosen, found, device));
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << "chunk_copies: " << failure.what() << '\n';
    return 1;
  }
}
