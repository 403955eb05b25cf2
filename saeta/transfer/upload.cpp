#include "saeta/transfer/upload.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/staging_ring.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace saeta {
namespace {

using range = std::span<const std::byte>;

/// Makes columns of arrays whose dictionaries are known.
using maker = std::function<std::vector<column>(std::span<const host_array* const>, const dictionary_cache&)>;

/// Appends the dictionaries of an array and its children that are neither known nor in `fresh`.
void append_unknown(const host_array& of, const dictionary_cache& known,
                    std::vector<const host_array*>& fresh) {
  const auto same = [&](const host_array* f) { return dictionary_cache::is_same(*f, *of.dictionary); };
  if (of.dictionary != nullptr && known.find(*of.dictionary) == nullptr &&
      std::ranges::none_of(fresh, same)) {
    fresh.push_back(of.dictionary.get());
  }
  for (const host_array& child : of.children) {
    append_unknown(child, known, fresh);
  }
}

/// Makes the dictionaries first (all new ones of a level at once), then the arrays that refer to them.
std::vector<column> with_dictionaries(std::span<const host_array* const> arrays, dictionary_cache& known,
                                      const std::shared_ptr<void>& source, const maker& make) {
  std::vector<const host_array*> fresh;
  for (const host_array* a : arrays) {
    append_unknown(*a, known, fresh);
  }
  if (!fresh.empty()) {
    std::vector<column> columns = with_dictionaries(fresh, known, source, make);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      known.remember(*fresh[i], std::make_shared<const column>(std::move(columns[i])), source);
    }
  }
  return make(arrays, known);
}

/// Makes all columns of a batch. The cache gets the batch's dictionaries only on success, because a failed
/// source may be freed at once.
batch make_batch(const host_batch& source, dictionary_cache& dictionaries, const maker& make) {
  std::vector<const host_array*> arrays;
  arrays.reserve(source.arrays.size());
  for (const host_array& a : source.arrays) {
    arrays.push_back(&a);
  }
  dictionary_cache known = dictionaries;
  batch batch{source.rows, with_dictionaries(arrays, known, source.keepalive, make)};
  dictionaries = std::move(known);
  return batch;
}

/// The part of one array that is sent: its row window, and the value of its first offset.
struct sent_array {
  row_window rows;
  std::int64_t first_offset = 0;
};

/// The contents of an upload: the arrays, each before its children, and the plan's range for each of their
/// buffers.
struct sending {
  static constexpr std::size_t absent = static_cast<std::size_t>(-1);
  std::vector<sent_array> arrays;
  std::vector<std::size_t> ranges;
  /// Bitmaps that began inside a byte, now from their first row on.
  std::vector<std::vector<std::uint64_t>> shifted;
};

/// The part of buffer `index` that a window of rows refers to.
range window_of_buffer(const host_array& from, std::size_t index, const row_window& rows,
                       const child_rows& pointed) {
  const range whole = from.buffers[index];
  if (whole.data() == nullptr || rows.rows == 0) {
    return {};
  }
  const byte_window w = bytes_of(from.type, index, rows, pointed, whole.size());
  return whole.subspan(w.offset, w.bytes);
}

/// The bits of a window from its first row on. Copies them if they begin inside a byte.
range whole_bytes(range sent, int shift, std::int64_t rows, sending& to) {
  if (shift == 0 || sent.empty()) {
    return sent;
  }
  const auto& bits = to.shifted.emplace_back(shifted_bits(sent, shift, rows));
  return std::as_bytes(std::span(bits)).first(static_cast<std::size_t>((rows + 7) / 8));
}

/// Adds rows [offset, offset + length) of the array's buffers.
void plan_rows(const host_array& from, std::int64_t offset, std::int64_t length, transfer_plan& plan,
               sending& to) {
  sent_array array{window_of(from.type, offset, length)};
  const child_rows pointed = rows_pointed_to(from, array.rows);
  array.first_offset = from.type.offset_width() != 0 ? pointed.first : 0;
  to.arrays.push_back(array);
  for (std::size_t i = 0; i < from.buffers.size(); ++i) {
    const range sent = whole_bytes(window_of_buffer(from, i, array.rows, pointed),
                                   bit_shift(from.type, i, array.rows), array.rows.rows, to);
    std::size_t& number = to.ranges.emplace_back(sending::absent);
    if (!sent.empty()) {
      const bool rebased = i == 1 && array.first_offset != 0;
      number = rebased ? plan.add_own(sent) : plan.add(sent);
    }
  }
  for (std::size_t i = 0; i < from.children.size(); ++i) {
    const host_array& child = from.children[i];
    const child_rows rows =
        select_child_rows(from.type, array.rows.first, array.rows.rows, pointed, child.length);
    plan_rows(child, child.offset + rows.first, rows.count, plan, to);
  }
}

/// Makes offsets cut from the middle of a column start at 0 again.
void rebase(const std::shared_ptr<context>& ctx, const data_type& type, const buffer& offsets,
            std::int64_t count) {
  const stream_ref work = ctx->work_stream();
  use_token token(work, {updates(offsets)});
  if (type.offset_width() == sizeof(std::int32_t)) {
    auto* at = token.span<std::int32_t>(offsets).data();
    ctx->kernels().rebase_offsets32(work.native_handle(), at, count, at);
  } else {
    auto* at = token.span<std::int64_t>(offsets).data();
    ctx->kernels().rebase_offsets64(work.native_handle(), at, count, at);
  }
  token.finish();
}

/// Makes columns over an uploaded slab, from arrays in the order in which they were planned.
class arrived {
public:
  arrived(std::shared_ptr<context> ctx, const transfer_plan& plan, const sending& sent, buffer slab,
          const dictionary_cache& dictionaries)
      : ctx_(std::move(ctx)), plan_(plan), array_(sent.arrays.begin()), range_(sent.ranges.begin()),
        slab_(std::move(slab)), dictionaries_(dictionaries) {}

  [[nodiscard]] column next(const host_array& from) {
    const sent_array& sent = *array_++;
    column::parts parts;
    parts.type = from.type;
    parts.length = sent.rows.rows - sent.rows.offset;
    parts.offset = sent.rows.offset;
    parts.null_count = nulls_of_part(from.null_count, from.length, parts.length);
    parts.dictionary = from.dictionary ? dictionaries_.find(*from.dictionary) : nullptr;
    for (std::size_t i = 0; i < from.buffers.size(); ++i) {
      const std::size_t number = *range_++;
      parts.buffers.push_back(number == sending::absent
                                  ? buffer{}
                                  : slab_.slice(plan_.target_of(number), plan_.bytes_of(number)));
    }
    if (sent.first_offset != 0) {
      rebase(ctx_, from.type, parts.buffers[1], sent.rows.rows + 1);
    }
    for (const host_array& child : from.children) {
      parts.children.push_back(next(child));
    }
    return column::make(ctx_, std::move(parts));
  }

private:
  std::shared_ptr<context> ctx_;
  const transfer_plan& plan_;
  std::vector<sent_array>::const_iterator array_;
  std::vector<std::size_t>::const_iterator range_;
  buffer slab_;
  const dictionary_cache& dictionaries_;
};

std::vector<column> send(const std::shared_ptr<context>& ctx, std::span<const host_array* const> arrays,
                         const dictionary_cache& dictionaries, const upload_options& options) {
  std::size_t buffers = 0; // not counting the children's
  for (const host_array* a : arrays) {
    buffers += a->buffers.size();
  }
  transfer_plan plan(options.readable);
  plan.reserve(buffers);
  sending sent;
  sent.arrays.reserve(arrays.size());
  sent.ranges.reserve(buffers);
  for (const host_array* a : arrays) {
    plan_rows(*a, a->offset, a->length, plan, sent);
  }
  plan.finish();
  arrived there(ctx, plan, sent,
                plan.slab_bytes() == 0 ? buffer{}
                                       : staging_ring::of(ctx)->upload(ctx, plan, options.tag, options.file),
                dictionaries);
  std::vector<column> columns;
  columns.reserve(arrays.size());
  for (const host_array* a : arrays) {
    columns.push_back(there.next(*a));
  }
  return columns;
}

/// Makes columns over host memory that the context can use in place.
class viewed {
public:
  viewed(std::shared_ptr<context> ctx, std::span<const host_array* const> arrays,
         const dictionary_cache& dictionaries, const host_batch& source, const adopt_options& options)
      : ctx_(std::move(ctx)), dictionaries_(dictionaries), memory_(source.memory) {
    transfer_plan plan; // joins ranges that touch; nothing is moved
    for (const host_array* a : arrays) {
      add_ranges(*a, options.own, plan);
    }
    plan.finish();
    const auto adopted = [&](range bytes) {
      external_memory memory;
      memory.pointer = const_cast<std::byte*>(bytes.data()); // the memory is adopted as read-only
      memory.bytes = bytes.size();
      memory.device = ctx_->device();
      memory.keepalive = source.keepalive;
      memory.ready = options.ready;
      memory.tag = options.tag;
      return buffer::adopt(ctx_, std::move(memory));
    };
    if (used_first_ < used_last_) {
      used_ = adopted({used_first_, used_last_});
    }
    runs_.reserve(plan.segments().size());
    for (const segment& s : plan.segments()) {
      runs_.push_back(adopted({s.source, s.bytes}));
    }
  }

  [[nodiscard]] column make(const host_array& from) {
    column::parts parts;
    parts.type = from.type;
    parts.length = from.length;
    parts.offset = from.offset;
    parts.null_count = from.null_count;
    parts.dictionary = from.dictionary ? dictionaries_.find(*from.dictionary) : nullptr;
    for (const range& r : from.buffers) {
      parts.buffers.push_back(buffer_over(r));
    }
    for (const host_array& child : from.children) {
      parts.children.push_back(make(child));
    }
    return column::make(ctx_, std::move(parts));
  }

private:
  void add_ranges(const host_array& of, const own_memory_finder& find, transfer_plan& plan) {
    for (const range& r : of.buffers) {
      std::optional<buffer> own = find && !r.empty() ? find(r) : std::nullopt;
      if (own) {
        own_.insert_or_assign({r.data(), r.size()}, std::move(*own));
      } else if (is_in_memory(r)) {
        used_first_ = used_first_ < used_last_ ? std::min(used_first_, r.data()) : r.data();
        used_last_ = std::max(used_last_, r.data() + r.size());
      } else {
        plan.add(r);
      }
    }
    for (const host_array& child : of.children) {
      add_ranges(child, find, plan);
    }
  }

  [[nodiscard]] bool is_in_memory(const range& r) const {
    const std::less_equal<> before;
    return !r.empty() && before(memory_.data(), r.data()) &&
           before(r.data() + r.size(), memory_.data() + memory_.size());
  }

  [[nodiscard]] buffer buffer_over(const range& r) {
    if (r.empty()) {
      return {};
    }
    if (const auto own = own_.find({r.data(), r.size()}); own != own_.end()) {
      return own->second;
    }
    if (is_in_memory(r)) {
      return used_.slice(static_cast<std::size_t>(r.data() - used_first_), r.size());
    }
    const auto at = reinterpret_cast<std::uintptr_t>(r.data());
    const buffer& run = run_at(at);
    return run.slice(at - run.address(), r.size());
  }

  [[nodiscard]] const buffer& run_at(std::uintptr_t address) {
    const auto begins_behind = [&](std::size_t i) {
      return i == runs_.size() || runs_[i].address() > address;
    };
    if (begins_behind(next_) || !begins_behind(next_ + 1)) {
      const auto next = std::ranges::partition_point(
          runs_, [&](const buffer& buffer) { return buffer.address() <= address; });
      next_ = static_cast<std::size_t>(next - runs_.begin()) - 1;
    }
    return runs_[next_++];
  }

  std::shared_ptr<context> ctx_;
  const dictionary_cache& dictionaries_;
  range memory_;
  const std::byte* used_first_ = nullptr; ///< where the ranges in `memory_` begin
  const std::byte* used_last_ = nullptr;  ///< and end
  buffer used_;                           ///< all between
  std::vector<buffer> runs_;              ///< of the other ranges
  std::size_t next_ = 0; ///< index after the last run found: arrays often lie in column order
  std::map<std::pair<const std::byte*, std::size_t>, buffer> own_; ///< by address and bytes
};

} // namespace

batch upload(const std::shared_ptr<context>& ctx, const host_batch& source, dictionary_cache& dictionaries,
             const upload_options& options) {
  require_argument(ctx, "ctx");
  const maker make = [&](auto arrays, const dictionary_cache& known) {
    return send(ctx, arrays, known, options);
  };
  return make_batch(source, dictionaries, make);
}

batch adopt(const std::shared_ptr<context>& ctx, const host_batch& source, dictionary_cache& dictionaries,
            const adopt_options& options) {
  require_argument(ctx, "ctx");
  if (!ctx->on_host() && !options.on_device) {
    throw error(errc::invalid_argument,
                concat("host memory can't be viewed in the context of ", to_string(ctx->device())));
  }
  const maker make = [&](auto arrays, const dictionary_cache& known) {
    viewed in_place(ctx, arrays, known, source, options);
    std::vector<column> columns;
    columns.reserve(arrays.size());
    for (const host_array* a : arrays) {
      columns.push_back(in_place.make(*a));
    }
    return columns;
  };
  return make_batch(source, dictionaries, make);
}

namespace {

static_assert(std::endian::native == std::endian::little, "Arrow's host layout here is little-endian");

std::int64_t rows_of(const host_values& given) {
  const data_type& type = given.described.type;
  const auto width = static_cast<std::size_t>(type.byte_width());
  if (width == 0 || type.id() == type_id::dictionary) {
    throw error(errc::unsupported,
                concat("column '", given.described.name, "': raw values of type ", type.name(),
                       " are not supported, expected a type of whole bytes per value",
                       type.id() == type_id::boolean ? ", for bools bool8" : ""));
  }
  if (given.bytes.size() % width != 0) {
    throw error(errc::invalid_argument, concat("column '", given.described.name, "': ", given.bytes.size(),
                                               " bytes are not a whole number of ", type.name(),
                                               " values, expected a multiple of ", width));
  }
  return static_cast<std::int64_t>(given.bytes.size() / width);
}

} // namespace

table table_of_values(const std::shared_ptr<context>& ctx, std::span<const host_values> columns,
                      std::string tag) {
  require_argument(ctx, "ctx");
  schema fields;
  host_batch source;
  // Checks each column's bytes before comparing rows, so that the message names the wrong column.
  for (const host_values& given : columns) {
    const std::int64_t rows = rows_of(given);
    fields.fields.push_back(given.described);
    source.arrays.push_back({given.described.type, rows, 0, 0, {{}, given.bytes}});
  }
  for (const host_array& array : source.arrays) {
    source.rows = source.arrays.front().length;
    if (array.length != source.rows) {
      const auto index = static_cast<std::size_t>(&array - source.arrays.data());
      throw error(errc::invalid_argument,
                  concat("column '", fields.fields[index].name, "' has ", array.length, " rows, expected ",
                         source.rows, " as column '", fields.fields.front().name, "'"));
    }
  }
  dictionary_cache none;
  upload_options options;
  options.tag = std::move(tag);
  batch batch = upload(ctx, source, none, options);
  return table::make(ctx, std::move(fields), {std::move(batch)});
}

} // namespace saeta
