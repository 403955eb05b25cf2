// Threads that fill the slots of a sender from a file, each its slice of every chunk.
#pragma once

#include "chunk_copies/way.hpp"

#include <filesystem>

namespace saeta::bench {

/// A file of random bytes with all chunks, gone at the end. Without a name from the start.
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

/// Sends all chunks, as the calling thread finds their slots free.
void send_unfilled(const chunk_memory& memory, sender& way);

/// As above by so many threads. The last one to fill its slice of a chunk sends it.
void send_filled(const chunk_memory& memory, sender& way, const source_file& source, std::size_t threads);

} // namespace saeta::bench
