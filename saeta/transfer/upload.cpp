#include "saeta/transfer/upload.hpp"

#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/host_window.hpp"
#include "saeta/transfer/staging_ring.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace saeta {
namespace {

using range = std::span<const std::byte>;

/// Makes columns of arrays whose dictionaries are columns already.
using maker = std::function<std::vector<column>(std::span<const host_array* const>,
                                                std::span<const std::shared_ptr<const column>>)>;

/// Dictionaries first (all the new ones of a level in one go), then the arrays that refer to them.
std::vector<column> with_dictionaries(std::span<const host_array* const> arrays, dictionary_cache& known,
                                      const std::shared_ptr<void>& source, const maker& make) {
  std::vector<const host_array*> fresh;
  for (const host_array* a : arrays) {
    const auto same = [&](const host_array* f) { return dictionary_cache::same(*f, *a->dictionary); };
    if (a->dictionary && !known.find(*a->dictionary) && std::none_of(fresh.begin(), fresh.end(), same)) {
      fresh.push_back(a->dictionary.get());
    }
  }
  if (!fresh.empty()) {
    std::vector<column> made = with_dictionaries(fresh, known, source, make);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      known.remember(*fresh[i], std::make_shared<const column>(std::move(made[i])), source);
    }
  }
  std::vector<std::shared_ptr<const column>> dictionaries;
  for (const host_array* a : arrays) {
    dictionaries.push_back(a->dictionary ? known.find(*a->dictionary) : nullptr);
  }
  return make(arrays, dictionaries);
}

/// All columns of a batch. The cache learns the batch's dictionaries only when everything succeeded: a failed source may
/// be gone at once.
batch make_batch(const host_batch& source, dictionary_cache& dictionaries, const maker& make) {
  std::vector<const host_array*> arrays;
  for (const host_array& a : source.arrays) {
    arrays.push_back(&a);
  }
  dictionary_cache known = dictionaries;
  batch made{source.rows, with_dictionaries(arrays, known, source.keepalive, make)};
  dictionaries = std::move(known);
  return made;
}

/// What one array sends: its row window, the number of each buffer's range in the plan, and the value of its first offset.
struct sending {
  static constexpr std::size_t absent = static_cast<std::size_t>(-1);
  row_window rows;
  std::vector<std::size_t> ranges;
  std::vector<std::size_t> bytes;
  std::int64_t first_offset = 0;
};

sending plan_array(const host_array& from, transfer_plan& plan) {
  sending made;
  made.rows = window_of(from.offset, from.length);
  const std::size_t width = offset_width(from.type);
  for (std::size_t i = 0; i < from.buffers.size(); ++i) {
    const range whole = from.buffers[i];
    if (whole.data() == nullptr || from.length == 0) {
      made.ranges.push_back(sending::absent);
      made.bytes.push_back(0);
      continue;
    }
    range sent;
    if (width != 0 && i == 2) {
      const std::byte* offsets = from.buffers[1].data();
      made.first_offset = read_offset(offsets, width, made.rows.first);
      const std::int64_t last = read_offset(offsets, width, made.rows.first + made.rows.rows);
      sent = whole.subspan(static_cast<std::size_t>(made.first_offset),
                           static_cast<std::size_t>(last - made.first_offset));
    } else {
      const byte_window w = bytes_of(from.type, i, made.rows);
      sent = whole.subspan(w.offset, w.bytes);
    }
    made.ranges.push_back(plan.add(sent));
    made.bytes.push_back(sent.size());
  }
  return made;
}

/// Offsets that were cut out of the middle start at 0 again.
void rebase(const std::shared_ptr<context>& home, const data_type& type, const buffer& offsets,
            std::int64_t count) {
  const stream_ref work = home->work_stream();
  use_token token(work, {updates(offsets)});
  if (type.layout() == layout_kind::offsets32) {
    auto* at = token.mutable_data<std::int32_t>(offsets);
    home->kernels().rebase_offsets32(work.native_handle(), at, count, at);
  } else {
    auto* at = token.mutable_data<std::int64_t>(offsets);
    home->kernels().rebase_offsets64(work.native_handle(), at, count, at);
  }
  token.finish();
}

std::vector<column> send(const std::shared_ptr<context>& home, std::span<const host_array* const> arrays,
                         std::span<const std::shared_ptr<const column>> dictionaries,
                         const upload_options& options) {
  transfer_plan plan(options.readable);
  std::vector<sending> sent;
  for (const host_array* a : arrays) {
    sent.push_back(plan_array(*a, plan));
  }
  plan.finish();
  const buffer slab = plan.slab_bytes() == 0
                          ? buffer{}
                          : staging_ring::of(home)->upload(home, plan, options.tag, options.file);
  std::vector<column> made;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const host_array& from = *arrays[i];
    column::parts parts;
    parts.type = from.type;
    parts.length = from.length;
    parts.offset = sent[i].rows.offset;
    parts.null_count = from.null_count;
    parts.dictionary = dictionaries[i];
    for (std::size_t b = 0; b < sent[i].ranges.size(); ++b) {
      const bool there = sent[i].ranges[b] != sending::absent && sent[i].bytes[b] != 0;
      parts.buffers.push_back(there ? slab.slice(plan.target_of(sent[i].ranges[b]), sent[i].bytes[b])
                                    : buffer{});
    }
    if (sent[i].first_offset != 0) {
      rebase(home, from.type, parts.buffers[1], sent[i].rows.rows + 1);
    }
    made.push_back(column::make(home, std::move(parts)));
  }
  return made;
}

std::vector<column> view(const std::shared_ptr<context>& home, std::span<const host_array* const> arrays,
                         std::span<const std::shared_ptr<const column>> dictionaries,
                         const std::shared_ptr<void>& keepalive, const std::string& tag) {
  transfer_plan plan; // joins ranges that touch; nothing is moved
  std::vector<std::vector<std::size_t>> numbers(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    for (const range& r : arrays[i]->buffers) {
      numbers[i].push_back(plan.add(r));
    }
  }
  plan.finish();
  std::vector<buffer> runs;
  for (const segment& s : plan.segments()) {
    external_memory memory;
    memory.pointer = const_cast<std::byte*>(s.source); // read_only guards it
    memory.bytes = s.bytes;
    memory.device = home->device();
    memory.keepalive = keepalive;
    memory.tag = tag;
    runs.push_back(buffer::adopt(home, std::move(memory)));
  }
  const auto buffer_over = [&](const range& r) -> buffer {
    if (r.empty()) {
      return {};
    }
    const auto at = reinterpret_cast<std::uintptr_t>(r.data());
    const auto next =
        std::partition_point(runs.begin(), runs.end(), [&](const buffer& b) { return b.address() <= at; });
    const buffer& run = *std::prev(next);
    return run.slice(at - run.address(), r.size());
  };
  std::vector<column> made;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const host_array& from = *arrays[i];
    column::parts parts;
    parts.type = from.type;
    parts.length = from.length;
    parts.offset = from.offset;
    parts.null_count = from.null_count;
    parts.dictionary = dictionaries[i];
    for (const range& r : from.buffers) {
      parts.buffers.push_back(buffer_over(r));
    }
    made.push_back(column::make(home, std::move(parts)));
  }
  return made;
}

} // namespace

batch upload(const std::shared_ptr<context>& home, const host_batch& source, dictionary_cache& dictionaries,
             const upload_options& options) {
  const maker make = [&](auto arrays, auto known) { return send(home, arrays, known, options); };
  return make_batch(source, dictionaries, make);
}

batch adopt(const std::shared_ptr<context>& home, const host_batch& source, dictionary_cache& dictionaries,
            const std::string& tag) {
  if (!home->on_host()) {
    throw error(errc::invalid_argument,
                concat("host memory can't be viewed in the context of ", to_string(home->device())));
  }
  const maker make = [&](auto arrays, auto known) {
    return view(home, arrays, known, source.keepalive, tag);
  };
  return make_batch(source, dictionaries, make);
}

} // namespace saeta
