// What a pair of allocate and free costs under a hard budget: the cache beside the driver's pool and the C library.
//
//   allocate [--threads 1,4,16] [--rounds N] [--batches N] [--out FILE.json] [--commit TEXT]
//
// Every peer does the same requests in alternation, round by round, with a stream for each thread. Patterns: `same` one
// size; `mixed` random sizes from 256 bytes to 1 MiB; `crossed` every fourth block is freed on the stream of another
// thread; `held` each thread keeps 64 blocks and replaces one at a time. A sample is the mean of a batch of 64 pairs;
// printed are the median and the 99th percentile over all batches of all threads, in nanoseconds a pair, and they go with
// machine, versions, commit and command into the JSON file. The best device is measured, or the host where there is none.

#include "saeta/base/text.hpp"
#include "saeta/base/version.hpp"
#include "saeta/memory/budget_resource.hpp"
#include "saeta/memory/caching_resource.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/driver_resources.hpp"
#include "saeta/runtime/runtime.hpp"

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

namespace {

using namespace saeta;

constexpr std::size_t pairs_in_batch = 64;
constexpr std::uint64_t budget_bytes = std::uint64_t{2} << 30;

struct options {
  std::vector<std::size_t> threads{1, 4, 16};
  std::size_t rounds = 5;
  std::size_t batches = 200;
  std::string out;
  std::string commit = "unknown";
  std::string command;
};

options parse(int count, char** arguments) {
  options chosen;
  for (int i = 0; i < count; ++i) {
    chosen.command += concat(i == 0 ? "" : " ", arguments[i]);
  }
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = arguments[i];
    if (i + 1 == count) {
      throw error(errc::invalid_argument, concat("option ", name, " needs a value"));
    }
    const std::string value = arguments[i + 1];
    if (name == "--threads") {
      chosen.threads.clear();
      std::istringstream list(value);
      for (std::string each; std::getline(list, each, ',');) {
        chosen.threads.push_back(std::stoul(each));
      }
    } else if (name == "--rounds") {
      chosen.rounds = std::stoul(value);
    } else if (name == "--batches") {
      chosen.batches = std::stoul(value);
    } else if (name == "--out") {
      chosen.out = value;
    } else if (name == "--commit") {
      chosen.commit = value;
    } else {
      throw error(errc::invalid_argument,
                  concat("option ", name, ": expected --threads, --rounds, --batches, --out or --commit"));
    }
  }
  return chosen;
}

/// The C library as a resource without any of the bookkeeping.
class malloc_resource final : public resource {
public:
  std::size_t trim() override { return 0; }
  [[nodiscard]] release_order order() const noexcept override { return release_order::when_complete; }
  [[nodiscard]] std::uint64_t held_bytes() const override { return 0; }

private:
  block do_allocate(const allocation_request& what, stream_ref) override {
    void* const made = std::malloc(what.bytes);
    if (made == nullptr) {
      throw error(errc::out_of_memory, concat("malloc has no ", what.bytes, " bytes"));
    }
    block given;
    given.pointer = made;
    given.bytes = what.bytes;
    return given;
  }
  bool do_deallocate(const block& what, stream_ref) noexcept override {
    std::free(what.pointer);
    return true;
  }
};

struct pattern {
  std::string_view name;
  bool mixed;
  bool crossed;
  std::size_t held;
};
constexpr std::array patterns{pattern{"same", false, false, 0}, pattern{"mixed", true, false, 0},
                              pattern{"crossed", true, true, 0}, pattern{"held", true, false, 64}};

struct peer {
  std::string name;
  std::shared_ptr<resource> memory;
};

struct result {
  std::string_view pattern;
  std::size_t threads = 0;
  std::string peer;
  std::vector<double> nanoseconds; ///< a pair, one for each batch

  [[nodiscard]] double quantile(double share) const {
    auto sorted = nanoseconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  }
};

void deallocate(resource& memory, const block& what, stream_ref stream) {
  if (!memory.deallocate(what, stream)) {
    throw error(errc::device, "a block could not be freed");
  }
}

/// The requests of one thread; its samples.
std::vector<double> run(resource& memory, const pattern& how, std::size_t batches, std::size_t thread,
                        const std::vector<stream_ref>& streams) {
  std::mt19937_64 random(thread + 1);
  const stream_ref own = streams[thread];
  const stream_ref other = streams[(thread + 1) % streams.size()];
  std::vector<std::size_t> sizes(1024, 64 << 10);
  for (std::size_t& bytes : sizes) {
    if (how.mixed) {
      bytes = (std::size_t{256} << random() % 12) + random() % 256;
    }
  }
  std::size_t at = 0;
  std::vector<block> held;
  for (std::size_t i = 0; i < how.held; ++i) {
    held.push_back(memory.allocate(sizes[at++ % sizes.size()], 0, own));
  }
  std::vector<double> samples;
  const std::size_t warm = batches / 4;
  for (std::size_t batch = 0; batch < batches + warm; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t pair = 0; pair < pairs_in_batch; ++pair, ++at) {
      block made = memory.allocate(sizes[at % sizes.size()], 0, own);
      if (how.held != 0) {
        std::swap(made, held[at * 7 % held.size()]);
      }
      deallocate(memory, made, how.crossed && at % 4 == 0 ? other : own);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    if (batch >= warm) {
      samples.push_back(took.count() / pairs_in_batch);
    }
  }
  for (const block& each : held) {
    deallocate(memory, each, own);
  }
  return samples;
}

void measure(result& into, resource& memory, const pattern& how, const options& chosen,
             const std::shared_ptr<backend>& device) {
  std::vector<stream> streams;
  std::vector<stream_ref> refs;
  for (std::size_t t = 0; t < into.threads; ++t) {
    refs.push_back(streams.emplace_back(device).ref());
  }
  std::barrier together(static_cast<std::ptrdiff_t>(into.threads));
  std::vector<std::vector<double>> samples(into.threads);
  std::vector<std::exception_ptr> failures(into.threads);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < into.threads; ++t) {
    running.emplace_back([&, t] {
      together.arrive_and_wait();
      try {
        samples[t] = run(memory, how, chosen.batches, t, refs);
      } catch (...) {
        failures[t] = std::current_exception();
      }
    });
  }
  for (std::thread& each : running) {
    each.join();
  }
  for (std::size_t t = 0; t < into.threads; ++t) {
    if (failures[t]) {
      std::rethrow_exception(failures[t]);
    }
    into.nanoseconds.insert(into.nanoseconds.end(), samples[t].begin(), samples[t].end());
    device->synchronize_stream(refs[t].native_handle());
  }
}

std::vector<peer> make_peers(const std::shared_ptr<backend>& device) {
  const auto limit = budget::create("bench", budget_bytes);
  const auto cache = std::make_shared<caching_resource>(std::make_shared<async_resource>(device), device,
                                                        std::make_shared<event_pool>(device));
  std::vector<peer> peers{{"saeta: budget, caching", std::make_shared<budget_resource>(cache, limit)},
                          {"saeta: caching", cache},
                          {"driver pool", std::make_shared<async_resource>(device)}};
  if (device->device().kind == device_kind::cpu) {
    peers.back().name = "aligned new";
    peers.push_back({"malloc", std::make_shared<malloc_resource>()});
  }
  return peers;
}

std::vector<result> measure_all(const options& chosen, const std::shared_ptr<backend>& device) {
  std::vector<result> all;
  for (const pattern& how : patterns) {
    for (const std::size_t threads : chosen.threads) {
      const std::vector<peer> peers = make_peers(device);
      const std::size_t first = all.size();
      for (const peer& each : peers) {
        all.push_back({how.name, threads, each.name, {}});
      }
      for (std::size_t round = 0; round < chosen.rounds; ++round) {
        for (std::size_t p = 0; p < peers.size(); ++p) {
          measure(all[first + p], *peers[p].memory, how, chosen, device);
        }
      }
    }
  }
  return all;
}

void print(const std::vector<result>& all) {
  std::cout << std::left << std::setw(10) << "pattern" << std::setw(9) << "threads" << std::setw(26) << "peer"
            << std::right << std::setw(12) << "p50 ns" << std::setw(12) << "p99 ns" << '\n'
            << std::fixed << std::setprecision(1);
  for (const result& each : all) {
    std::cout << std::left << std::setw(10) << each.pattern << std::setw(9) << each.threads << std::setw(26)
              << each.peer << std::right << std::setw(12) << each.quantile(0.5) << std::setw(12)
              << each.quantile(0.99) << '\n';
  }
}

std::string quoted(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      made += '\\';
    }
    made += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return made + '"';
}

void write_json(const options& chosen, const std::vector<result>& all, const backend& device) {
  const device_properties machine = device.properties();
  std::ofstream out(chosen.out);
  out << "{\n  \"benchmark\": \"allocate\",\n  \"commit\": " << quoted(chosen.commit)
      << ",\n  \"command\": " << quoted(chosen.command) << ",\n  \"saeta\": " << quoted(version)
      << ",\n  \"device\": {\"id\": " << quoted(to_string(device.device()))
      << ", \"name\": " << quoted(machine.name) << ", \"architecture\": " << quoted(machine.architecture)
      << ", \"driver\": " << quoted(machine.driver)
      << "},\n  \"cpu_threads\": " << std::thread::hardware_concurrency()
      << ",\n  \"budget_bytes\": " << budget_bytes << ",\n  \"rounds\": " << chosen.rounds
      << ",\n  \"pairs_in_batch\": " << pairs_in_batch << ",\n  \"results\": [";
  const char* comma = "";
  for (const result& each : all) {
    out << comma << "\n    {\"pattern\": " << quoted(each.pattern) << ", \"threads\": " << each.threads
        << ", \"peer\": " << quoted(each.peer) << ", \"batches\": " << each.nanoseconds.size()
        << ", \"p10_ns\": " << each.quantile(0.1) << ", \"p50_ns\": " << each.quantile(0.5)
        << ", \"p90_ns\": " << each.quantile(0.9) << ", \"p99_ns\": " << each.quantile(0.99) << "}";
    comma = ",";
  }
  out << "\n  ]\n}\n";
  out.close();
  if (!out) {
    throw error(errc::io, concat("can't write ", chosen.out));
  }
}

} // namespace

int main(int count, char** arguments) {
  try {
    const options chosen = parse(count, arguments);
    const auto where = open_context(best_device());
    const std::vector<result> all = measure_all(chosen, where->device_backend());
    std::cout << "allocate on " << to_string(where->device()) << ", budget " << human_bytes(budget_bytes)
              << ", p50 over batches of " << pairs_in_batch << " pairs\n";
    print(all);
    if (!chosen.out.empty()) {
      write_json(chosen, all, *where->device_backend());
    }
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << "allocate: " << failure.what() << '\n';
    return 1;
  }
}
