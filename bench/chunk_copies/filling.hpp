// Threads that fill the slots of a sender from a file. Each thread reads the same slice of every chunk.
#pragma once

#include "chunk_copies/sender.hpp"

#include <filesystem>

namespace saeta::bench {

/// An unlinked temporary file of random bytes that holds all chunks.
class source_file {
public:
  /// @throws error io naming the folder
  source_file(const std::filesystem::path& folder, std::size_t bytes);
  source_file(const source_file&) = delete;
  source_file& operator=(const source_file&) = delete;
  ~source_file();

  /// @throws error io
  void read(std::size_t at, std::span<std::byte> target) const;

private:
  int descriptor_;
};

/// Sends all chunks from the calling thread, without filling the slots. Waits until each slot is free.
void send_unfilled(const chunk_memory& memory, sender& target);

/// Fills and sends all chunks with `threads` threads. The last one to fill its slice of a chunk sends it.
void send_filled(const chunk_memory& memory, sender& target, const source_file& source, std::size_t threads);

} // namespace saeta::bench
