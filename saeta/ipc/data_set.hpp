// Several Arrow IPC sources as one sequence of batches.
//
// @code
// std::vector<std::unique_ptr<reader>> readers;
// readers.push_back(reader::open("january.arrow"));
// readers.push_back(reader::open("february.arrow"));
// data_set year(std::move(readers));     // owns the readers; batches are numbered through both files
// const table rows = year.read_all(ctx); // ready in stream order; the memory is the table's own
// @endcode
//
// What      Batches are numbered through all sources. All of them, some in any order, or windows of parts of
//           them are read: by one plan over all sources where it can take them (ipc/reader.hpp), otherwise
//           by one reader after the other.
// Owner     Owns the readers. Scans share the sources.
// Budget, Order  As for a reader.
// Thread    One thread per data set.
// Failure   type_mismatch: the rows of a source can't be rows of the others (column/same_type.hpp), or of the
//           schema that was meant; names the source, the column and both types. out_of_range: a batch that
//           the sources don't have.
//           unsupported: batches by number of a stream that is still being sent. Otherwise as for a reader.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/scan.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {
namespace ipc {

/// The rows and bytes of a batch, from its metadata.
struct batch_size {
  std::int64_t rows = 0;
  std::uint64_t bytes = 0; ///< of the buffers of the requested columns, as they are in the source
  bool compressed = false;
};

struct data_set_options {
  /// The schema of every table, which must allow the rows of each source. Default: the schema of the rows of
  /// all sources.
  std::optional<schema> meant = {};
  /// Only batches [first, second).
  std::optional<std::pair<std::int64_t, std::int64_t>> range = {};
  /// Only these batches, in this order. A batch may occur several times.
  std::optional<std::vector<std::int64_t>> batches = {};
};

class data_set {
public:
  /// @param readers  at least one reader; none has read a batch yet. If there are several readers, or
  /// `options` are set, no reader has a range of batches itself, and all have the same `read_options`.
  explicit data_set(std::vector<std::unique_ptr<reader>> readers, const data_set_options& options = {});
  data_set(const data_set&) = delete;
  data_set& operator=(const data_set&) = delete;
  ~data_set();

  /// Moves the readers out, so that another data set can be made of them.
  [[nodiscard]] std::vector<std::unique_ptr<reader>> take_readers() &&;
  /// The container of the first source.
  [[nodiscard]] container format() const noexcept;
  /// Whether a source is a stream that is still being sent.
  [[nodiscard]] bool live() const noexcept;
  [[nodiscard]] const schema& fields() const noexcept;
  /// As reader::choose, for the only source of a data set without options.
  void choose(std::vector<std::string> columns);
  /// Number of the requested batches; -1 if it is known only at the end, because a source is a stream.
  [[nodiscard]] std::int64_t batch_count() const noexcept;

  /// Returns the next batch, or nullopt at the end. As reader::next.
  [[nodiscard]] std::optional<batch> next(const std::shared_ptr<context>& ctx);
  /// Returns the requested batches, or those that `next` did not return. As reader::read_all.
  [[nodiscard]] table read_all(const std::shared_ptr<context>& ctx, const progress_hook& hook = {});
  /// Begins a scan of the requested batches. Returns null in the cases in which they are read one by one.
  [[nodiscard]] std::unique_ptr<scan> scan_windows(const std::shared_ptr<context>& ctx,
                                                   const scan_options& options);

  /// Whether all sources are files or memory of this machine.
  [[nodiscard]] bool near_by() const noexcept;
  /// Returns why parts of compressed batches can't be decoded, as in "column 'a' of string_view": the first
  /// column whose rows may be anywhere in its buffers. Empty: they can be, or no plan can take the sources.
  [[nodiscard]] std::string undivided();
  /// Returns the decoded bytes of compressed batches whose parts can be decoded; 0 for others, and for those whose
  /// decoders would take as much memory. Reads what their buffers claim. Batches are numbered as in `sizes`.
  [[nodiscard]] std::vector<std::uint64_t> divided_bytes(std::span<const std::size_t> numbers);
  /// Whether one plan can take all sources. The functions below need it.
  [[nodiscard]] bool planned();
  /// Returns the sizes of the requested batches. Reads their metadata at the first call.
  /// @throws error unsupported if no plan can take the sources.
  [[nodiscard]] const std::vector<batch_size>& sizes();
  /// Begins to fetch the metadata of all batches, and returns what `sizes` probably will: batches whose messages
  /// have the same sizes mostly have as many rows. Empty if that is of no use: `sizes` are known, the sources
  /// fetch nothing ahead, or only some columns are read, whose places the metadata tell.
  [[nodiscard]] std::vector<batch_size> guess_sizes();
  /// Begins to fetch whole batches in this order, as many as a scan fetches ahead, while `sizes` are fetched.
  /// The scan finds them as long as the result lives. Batches are numbered as in `sizes`.
  [[nodiscard]] std::shared_ptr<void> fetch_batches(const context& ctx, std::span<const std::size_t> numbers);
  /// Begins a scan of these windows, each of which becomes one table, copied on the host as well. Batches are
  /// numbered as in `sizes`.
  /// @param orders  of the rows of each window; none: as they are read
  /// A compressed batch with parts in several windows is decoded once if they are in the order of its rows, and
  /// from its beginning for each one otherwise.
  /// @throws error invalid_argument (an empty window, a part of a compressed batch whose rows can't be decoded
  /// in parts (`undivided`), another number of orders), out_of_range (names the window), unsupported if no plan can take the sources.
  [[nodiscard]] std::unique_ptr<scan> scan_spans(const std::shared_ptr<context>& ctx,
                                                 std::span<const std::vector<batch_span>> windows,
                                                 std::size_t windows_ahead,
                                                 std::vector<window_order> orders = {});

private:
  /// Requested batches of one source: all of them, or a range.
  struct part {
    std::size_t reader = 0;
    std::optional<std::pair<std::int64_t, std::int64_t>> range;
  };

  void describe(const std::optional<schema>& meant);
  void select(const data_set_options& options);
  [[nodiscard]] bool is_one_reader() const noexcept;
  [[nodiscard]] const std::shared_ptr<const detail::planned_source>& plan();
  [[nodiscard]] std::shared_ptr<const detail::planned_source> plan_for(const context& ctx);
  [[nodiscard]] scan_list chosen() const;
  [[nodiscard]] reader& begin_part(const std::shared_ptr<context>& ctx);
  void fetch_ahead(const std::shared_ptr<context>& ctx);
  void end_part();

  std::vector<std::unique_ptr<reader>> readers_;
  std::shared_ptr<const schema_index> fields_;
  std::optional<std::vector<std::int64_t>> batches_; ///< the requested ones; nullopt: all
  std::vector<part> parts_;                          ///< the requested batches, as parts for readers
  std::size_t at_ = 0;                               ///< part that is read next
  bool in_part_ = false;                             ///< `next` has begun to read it
  bool asked_ = false;                               ///< `plan_` was looked for
  std::shared_ptr<const detail::planned_source> plan_;
  std::shared_ptr<void> metadata_; ///< fetched for `sizes`
  std::vector<batch_size> sizes_;
};

} // namespace ipc
} // namespace saeta
