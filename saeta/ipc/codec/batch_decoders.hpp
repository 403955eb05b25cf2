// Decodes the buffers of a compressed batch that is read in parts of its rows.
//
// What      Each buffer has a decoder that stays at its position, so that the next part goes on where the one
//           before it ended. The last decoded bytes are kept: neighbouring parts share an offset, or a byte of
//           a bitmap. The plan of a part needs its first and last offset, so the offsets of a part are decoded
//           when it is planned, and kept until it is read. Reading bytes that are no longer kept decodes the
//           buffer from its beginning again.
// Owner     Borrows the source.
// Budget    Charged with the memory of all decoders, which the headers of their frames say, and with the bytes
//           that are kept.
// Thread    Any. Parts are read in the order of their rows: another order is correct and takes longer.
// Failure   As buffer_decoder; budget_exceeded. A buffer that has failed begins anew.
#pragma once

#include "saeta/budget/budget.hpp"
#include "saeta/ipc/codec/decoded_buffers.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

/// The decoder of one buffer.
class part_decoder {
public:
  part_decoder(const scatter_source& from, const packed_buffer& of, std::shared_ptr<budget> charged,
               std::string label);
  part_decoder(const part_decoder&) = delete;
  part_decoder& operator=(const part_decoder&) = delete;
  ~part_decoder();

  /// Returns the two offsets that `of` names, and keeps the bytes from the first one on.
  [[nodiscard]] seen_borders borders(const packed_buffer& of);
  /// Reads decoded bytes. @param position  counted from the first decoded byte of the buffer
  void read(std::uint64_t position, std::span<std::byte> target);
  void finish();

private:
  template <class Action>
  void run(const Action& action);
  [[nodiscard]] std::uint64_t kept_from() const { return decoder_.position() - kept_.size(); }
  void begin();
  void go_to(std::uint64_t position);
  void keep_to(std::uint64_t end);
  void drop_before(std::uint64_t end);
  void charge(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t memory_of_decoder();

  packed_buffer of_;
  std::string label_;
  buffer_decoder decoder_;
  std::shared_ptr<budget> charged_to_;
  std::uint64_t charged_ = 0;
  std::uint64_t expected_ = 0; ///< bytes of the decoder, as the header of its frame says
  std::mutex mutex_;
  bool begun_ = false;
  std::vector<std::byte> kept_; ///< the decoded bytes before the decoder's position
};

class batch_decoders {
public:
  /// @param from  must outlive the decoders
  batch_decoders(const scatter_source& from, std::shared_ptr<budget> charged)
      : from_(from), charged_(std::move(charged)) {}

  /// Returns what a buffer claims. @param read  reads it, at the first call
  [[nodiscard]] packed_claim claim(std::size_t number, const std::function<packed_claim()>& read);
  /// Returns the decoder of a buffer. @param label  names the buffer for `finish`
  [[nodiscard]] part_decoder& at(std::size_t number, const packed_buffer& of,
                                 const std::function<std::string()>& label);
  /// Decodes what is left of each buffer and checks that the frames end there. Call it after the last part.
  void finish();

private:
  const scatter_source& from_;
  std::shared_ptr<budget> charged_;
  std::mutex mutex_;
  std::map<std::size_t, packed_claim> claims_;                   ///< by the number of their buffer
  std::map<std::size_t, std::unique_ptr<part_decoder>> buffers_; ///< the same
};

} // namespace saeta::ipc::detail
