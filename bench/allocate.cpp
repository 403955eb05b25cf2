// Times a pair of allocate and free under a hard budget, in Saeta and in the allocators in use today
// ("peers").
//
//   allocate [--patterns same,mixed,...] [--threads 1,4,16] [--rounds N] [--batches N] [--out FILE.json]
//            [--commit TEXT]
//
// All peers serve the same requests. In each round they run one after the other, with one stream per thread.
// Patterns:
//
//   same      one size
//   mixed     random sizes from 256 bytes to 512 KiB
//   crossed   `mixed`, and every fourth block is freed on the stream of another thread
//   held      each thread keeps 64 blocks and replaces one at a time
//   settled   `mixed` after each thread has held 16 MiB, so that the budget's peak exceeds a few blocks
//
// A sample is the mean of a batch of 64 pairs. The program prints the median and the 99th percentile over all
// batches of all threads, in nanoseconds per pair. The JSON file adds machine, versions, commit and command.
// Runs on the best device, or on the host if there is no device. Every peer that supports a limit has one of
// 2 GiB. allocate/peers.hpp lists the peers.

#include "allocate/peers.hpp"
#include "saeta/runtime/runtime.hpp"
#include "support/quantile.hpp"

#include <algorithm>
#include <barrier>
#include <exception>
#include <iomanip>
#include <iostream>
#include <span>
#include <sstream>
#include <thread>

namespace {

using namespace saeta;
using namespace saeta::bench;

struct options {
  std::vector<std::size_t> threads{1, 4, 16};
  std::vector<pattern> patterns{bench::patterns.begin(), bench::patterns.end()};
  std::size_t rounds = 5;
  std::size_t batches = 200;
  run_options run;
};

/// @throws error invalid_argument for an unknown name
std::vector<pattern> patterns_named(const std::string& names) {
  std::vector<pattern> found;
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');) {
    const auto* const how = std::ranges::find(patterns, name, &pattern::name);
    if (how == patterns.end()) {
      throw error(errc::invalid_argument, concat("option --patterns: there is no '", name, "'"));
    }
    found.push_back(*how);
  }
  return found;
}

options parse(int count, char** arguments) {
  options chosen;
  command_line line(count, arguments);
  if (std::string names; line.read("--patterns", names), !names.empty()) {
    chosen.patterns = patterns_named(names);
  }
  line.read("--threads", chosen.threads);
  line.read("--rounds", chosen.rounds);
  line.read("--batches", chosen.batches);
  chosen.run = read_run_options(line);
  line.finish();
  if (chosen.threads.empty() || std::ranges::count(chosen.threads, std::size_t{0}) != 0) {
    throw error(errc::invalid_argument, "option --threads: expected a list of numbers above 0");
  }
  return chosen;
}

struct result {
  std::string_view pattern;
  std::size_t threads = 0;
  std::string peer;
  std::vector<double> nanoseconds; ///< per pair: one mean for each batch
  std::string failure;             ///< the error message of a peer that failed, or empty
};

void measure(result& into, peer& memory, const pattern& how, const options& chosen,
             const thread_streams& streams) {
  const std::size_t count = into.threads;
  std::barrier together(static_cast<std::ptrdiff_t>(count));
  std::vector<std::vector<double>> samples(count);
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < count; ++t) {
    running.emplace_back([&, t] {
      together.arrive_and_wait();
      try {
        samples[t] = memory.run({how, chosen.batches, t, count, streams});
      } catch (...) {
        failures[t] = std::current_exception();
      }
    });
  }
  for (std::thread& each : running) {
    each.join();
  }
  for (std::size_t t = 0; t < count; ++t) {
    if (failures[t]) {
      std::rethrow_exception(failures[t]);
    }
    into.nanoseconds.insert(into.nanoseconds.end(), samples[t].begin(), samples[t].end());
  }
  streams.synchronize();
}

/// Measures a peer. A failure (out of memory, for example) is recorded as its result; the other peers go on.
void try_measure(result& into, peer& memory, const pattern& how, const options& chosen,
                 const thread_streams& streams) {
  if (!into.failure.empty()) {
    return;
  }
  try {
    measure(into, memory, how, chosen, streams);
  } catch (const std::exception& failure) {
    into.failure = failure.what();
    into.failure.resize(std::min(into.failure.size(), into.failure.find('\n'))); // torch appends a stack
    into.nanoseconds.clear();
  }
}

peer_list find_peers(const std::shared_ptr<backend>& device) {
  peer_list found;
  add_saeta(found, device);
  if (device->device().kind == device_kind::cpu) {
    add_host_allocators(found);
  } else {
    add_rmm(found);
    add_torch(found, *device);
  }
  return found;
}

void print_head(device_id device, const peer_list& list) {
  std::cout << "allocate on " << to_string(device) << ", budget " << human_bytes(budget_bytes)
            << ", p50 over batches of " << pairs_in_batch << " pairs\n";
  for (const std::string& each : list.missing) {
    std::cout << "not measured: " << each << '\n';
  }
  std::cout << std::left << std::setw(10) << "pattern" << std::setw(9) << "threads" << std::setw(22) << "peer"
            << std::right << std::setw(12) << "p50 ns" << std::setw(12) << "p99 ns" << '\n'
            << std::fixed << std::setprecision(1);
}

void print(std::span<const result> some) {
  for (const result& each : some) {
    std::cout << std::left << std::setw(10) << each.pattern << std::setw(9) << each.threads << std::setw(22)
              << each.peer << std::right;
    if (each.failure.empty()) {
      std::cout << std::setw(12) << quantile(each.nanoseconds, 0.5) << std::setw(12)
                << quantile(each.nanoseconds, 0.99) << '\n';
    } else {
      std::cout << "  failed: " << each.failure << '\n';
    }
  }
  std::cout << std::flush;
}

/// Prints the results of each pattern and number of threads as soon as they are complete.
std::vector<result> measure_all(const options& chosen, const peer_list& list, const thread_streams& streams) {
  std::vector<result> all;
  for (const pattern& how : chosen.patterns) {
    for (const std::size_t threads : chosen.threads) {
      const std::size_t first = all.size();
      for (const auto& each : list.peers) {
        all.push_back({how.name, threads, each->name(), {}, {}});
      }
      for (std::size_t round = 0; round < chosen.rounds; ++round) {
        for (std::size_t p = 0; p < list.peers.size(); ++p) {
          try_measure(all[first + p], *list.peers[p], how, chosen, streams);
        }
      }
      print(std::span(all).subspan(first));
    }
  }
  return all;
}

json_object as_json(const options& chosen, const std::vector<result>& all, const peer_list& list,
                    device_id device) {
  json_object file = describe_run("allocate", chosen.run, device, list.versions);
  std::vector<json_object> lines;
  for (const result& each : all) {
    json_object& line = lines.emplace_back();
    line.add("pattern", each.pattern).add("threads", each.threads).add("peer", each.peer);
    if (each.failure.empty()) {
      add_quantiles(line, each.nanoseconds);
    } else {
      line.add("failure", each.failure);
    }
  }
  return file.add("budget_bytes", budget_bytes)
      .add("rounds", chosen.rounds)
      .add("pairs_in_batch", pairs_in_batch)
      .add("results", lines);
}

} // namespace

int main(int count, char** arguments) {
  try {
    const options chosen = parse(count, arguments);
    const auto device = open_context(best_device())->device_backend();
    const thread_streams streams(device, *std::ranges::max_element(chosen.threads));
    const peer_list list = find_peers(device);
    print_head(device->device(), list);
    const std::vector<result> all = measure_all(chosen, list, streams);
    write_result(chosen.run, as_json(chosen, all, list, device->device()));
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << "allocate: " << failure.what() << '\n';
    return 1;
  }
}
