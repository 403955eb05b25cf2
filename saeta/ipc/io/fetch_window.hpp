// Lets a source fetch the messages that are read next, while those before them are read.
//
// What      A source that answers slowly but takes many requests at once is only fast if it knows early what
//           is needed. The messages of a file are known from its footer. The bytes that are fetched ahead are
//           bounded; they are dropped when their messages have been read.
//           If only some columns are read, the metadata of a message says where they are. The metadata of many
//           messages are fetched together. Messages whose metadata and bodies have the sizes of one that is
//           known mostly have its layout, so the same ranges of them are fetched at once. A wrong guess costs
//           requests: what is read and was not fetched is requested when it is read.
//           Bodies that become columns as they are may be fetched into the memory of these columns.
// Owner     Holds the bytes that were fetched (byte_source::fetch_ahead), which no budget counts, and memory of
//           bodies until it is taken.
// Thread    One at a time.
// Failure   A message whose metadata is broken ends the fetching: reading it reports the error. Interrupts
//           and io pass.

#pragma once

#include "saeta/ipc/io/source.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

class fetch_window {
public:
  struct message {
    byte_range whole;
    std::uint64_t metadata_bytes = 0; ///< at the beginning
  };
  struct messages {
    std::size_t count = 0;
    std::function<message(std::size_t number)> at;
    /// Returns the ranges that are read of a message, ascending, found in its metadata. Null: all of each
    /// message.
    std::function<std::vector<byte_range>(std::size_t number)> ranges;
    /// Whether the same ranges are read of messages that have the same layout.
    bool alike = true;
    /// As byte_source::fetch_ahead.
    std::function<std::shared_ptr<void>(std::span<const byte_range>)> fetch;
    /// Returns memory in which the body of a whole message is fetched. Null, or it returns null: the source
    /// keeps the bytes.
    /// @param held  bytes that are held already
    std::function<std::shared_ptr<std::byte>(std::uint64_t bytes, std::uint64_t held)> memory = nullptr;
  };

  /// @param budget_bytes  memory that the reader may take. At most half of it is fetched ahead.
  fetch_window(messages all, std::uint64_t budget_bytes);

  /// Fetches further. The messages before `next` have been read.
  void go_on(std::size_t next);
  /// Returns the memory in which the body of a message is fetched, once. Null: it has none, or its body is not
  /// these bytes.
  std::shared_ptr<std::byte> take(std::size_t number, std::uint64_t body, std::uint64_t bytes);
  /// Bytes that are held.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

private:
  struct held {
    std::size_t end; ///< message behind the last one of these bytes
    std::uint64_t bytes;
    std::shared_ptr<void> kept;
  };
  void fetch_metadata();
  void fetch_group();
  /// Adds the ranges of a whole message. Returns its bytes. @param held  bytes that are held already
  std::uint64_t fetch_whole(std::size_t number, std::uint64_t held, std::vector<byte_range>& ranges);
  [[nodiscard]] std::vector<byte_range> ranges_of(std::size_t number);

  messages all_;
  std::uint64_t most_bytes_;
  /// Ranges of a message by the sizes of its metadata and its body, from the beginning of the message.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<byte_range>> layouts_;
  std::map<std::size_t, byte_range> bodies_in_place_; ///< by the number of their message
  std::deque<held> metadata_;
  std::deque<held> bodies_;
  std::size_t known_ = 0;   ///< messages whose metadata was requested
  std::size_t fetched_ = 0; ///< messages that were requested
  std::uint64_t bytes_ = 0;
};

} // namespace saeta::ipc::detail
