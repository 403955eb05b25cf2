// Runs the ranks of a RapidsMPF communicator as threads of this process, connected by UCXX.
#pragma once

#include <chrono>
#include <ostream>

#if defined(__GLIBCXX__) && _GLIBCXX_RELEASE < 13
namespace rapidsmpf {
/// RapidsMPF's logger prints time points, for which libstdc++ has no operator before release 13.
inline std::ostream& operator<<(std::ostream& to, std::chrono::system_clock::time_point when) {
  return to << when.time_since_epoch().count();
}
} // namespace rapidsmpf
#endif

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <rapidsmpf/communicator/logger.hpp>
#include <rapidsmpf/communicator/ucxx.hpp>
#include <rapidsmpf/config.hpp>
#include <rapidsmpf/progress_thread.hpp>
#include <thread>
#include <vector>

namespace saeta::conformance {

/// Calls `work` for each rank on a separate thread and waits for all. An exception terminates the process,
/// because the other ranks would wait for the failed one for ever.
inline void run_ranks(rapidsmpf::Rank count,
                      const std::function<void(std::shared_ptr<rapidsmpf::Communicator>)>& work) {
  std::promise<rapidsmpf::ucxx::RemoteAddress> promised;
  const std::shared_future<rapidsmpf::ucxx::RemoteAddress> root = promised.get_future().share();
  const auto run = [&](bool is_root) {
    const auto at = is_root ? std::nullopt : std::optional(root.get());
    const auto ranks = std::make_shared<rapidsmpf::ucxx::UCXX>(
        rapidsmpf::ucxx::init(nullptr, count, at, rapidsmpf::config::Options()),
        std::make_shared<rapidsmpf::ProgressThread>(), rapidsmpf::Logger::create());
    if (is_root) {
      promised.set_value(ranks->listener_address().address);
    }
    ranks->barrier(); // the root serves the connections of the other ranks here
    work(ranks);
    ranks->barrier();
  };
  std::vector<std::jthread> threads;
  for (rapidsmpf::Rank rank = 0; rank < count; ++rank) {
    threads.emplace_back(run, rank == 0);
  }
}

} // namespace saeta::conformance
