// Files, the packed form, spilling and sharing of the C interface.
#include "saeta/capi/call.hpp"
#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/reader.hpp"

#include <mutex>
#include <optional>

namespace saeta::capi {

/// A scan by windows or, where the sources are read batch by batch, by the data set.
class held_scan {
public:
  held_scan(std::shared_ptr<context> in, std::vector<std::unique_ptr<ipc::reader>> readers,
            const ipc::scan_options& options)
      : ctx_(std::move(in)), sources_(std::move(readers)), windows_(sources_.scan_windows(ctx_, options)),
        batch_rows_(options.batch_rows) {}

  std::optional<table> next() {
    const std::lock_guard lock(turn_);
    if (windows_ != nullptr) {
      return windows_->next();
    }
    while (!rest_ || rest_->rows() == 0) {
      auto rows = sources_.next(ctx_);
      if (!rows) {
        return std::nullopt;
      }
      rest_ = table::make(ctx_, sources_.fields(), {std::move(*rows)});
    }
    const std::int64_t count = batch_rows_ == 0 ? rest_->rows() : std::min(batch_rows_, rest_->rows());
    table part = rest_->slice(0, count);
    rest_ = rest_->slice(count, rest_->rows() - count);
    return part;
  }

private:
  std::mutex turn_;
  std::shared_ptr<context> ctx_;
  ipc::data_set sources_;
  std::unique_ptr<ipc::scan> windows_; ///< null: batch by batch
  std::int64_t batch_rows_;
  std::optional<table> rest_; ///< of the last batch
};

namespace {

ipc::read_options reading(const saeta_read_options& options) {
  ipc::read_options made;
  if (options.columns != nullptr) {
    made.columns = required_texts(options.columns, options.column_count, "columns");
  }
  made.copy = options.copy != 0 ? copy_policy::always : copy_policy::when_needed;
  return made;
}

ipc::write_options writing(const saeta_write_options* given) {
  const saeta_write_options options = options_of(given, SAETA_WRITE_OPTIONS);
  if (options.format != SAETA_FILE && options.format != SAETA_STREAM) {
    throw error(errc::invalid_argument,
                concat("the format is ", options.format, ", expected SAETA_FILE (0) or SAETA_STREAM (1)"));
  }
  if (options.compression < SAETA_PLAIN || options.compression > SAETA_ZSTD) {
    throw error(errc::invalid_argument,
                concat("the compression is ", options.compression,
                       ", expected SAETA_PLAIN (0), SAETA_LZ4 (1) or SAETA_ZSTD (2)"));
  }
  ipc::write_options made;
  made.format = options.format == SAETA_FILE ? ipc::container::file : ipc::container::stream;
  made.body = static_cast<ipc::compression>(options.compression);
  made.durable = options.durable != 0;
  return made;
}

} // namespace
} // namespace saeta::capi

using namespace saeta;
using namespace saeta::capi;

saeta_code saeta_read(saeta_context* ctx, const char* path, const saeta_read_options* options,
                      saeta_table** result) {
  return give(result, [&] {
    const auto into = get(ctx, "context");
    const std::string file(required_text(path, "path"));
    const saeta_read_options given = options_of(options, SAETA_READ_OPTIONS);
    return handle_of_value<saeta_table>(ipc::reader::open(file, reading(given))->read_all(into));
  });
}

saeta_code saeta_scan_open(saeta_context* ctx, const char* const* paths, size_t count,
                           const saeta_read_options* options, saeta_scan** result) {
  return give(result, [&] {
    const auto into = get(ctx, "context");
    const saeta_read_options given = options_of(options, SAETA_READ_OPTIONS);
    std::vector<std::unique_ptr<ipc::reader>> readers;
    for (const std::string& file : required_texts(paths, count, "paths")) {
      readers.push_back(ipc::reader::open(file, reading(given)));
    }
    if (readers.empty() || given.batch_rows < 0) {
      throw error(errc::invalid_argument,
                  concat("a scan of ", count, " files in tables of ", given.batch_rows, " rows"));
    }
    ipc::scan_options how;
    how.window_bytes = given.window_bytes != 0 ? given.window_bytes : how.window_bytes;
    how.batch_rows = given.batch_rows;
    return handle_of<saeta_scan>(std::make_shared<held_scan>(into, std::move(readers), how));
  });
}

saeta_code saeta_scan_next(saeta_scan* of, saeta_table** result) {
  return give(result, [&]() -> saeta_table* {
    auto rows = get(of, "scan")->next();
    return rows ? handle_of_value<saeta_table>(std::move(*rows)) : nullptr;
  });
}

saeta_code saeta_write(saeta_table* of, const char* path, const saeta_write_options* options,
                       uint64_t* bytes) {
  return run([&] {
    const auto rows = get(of, "table");
    const std::uint64_t written =
        ipc::write(*rows, std::string(required_text(path, "path")), writing(options));
    if (bytes != nullptr) {
      *bytes = written;
    }
  });
}

saeta_code saeta_writer_open(const char* path, const saeta_write_options* options, saeta_writer** result) {
  return give(result, [&] {
    const std::string file(required_text(path, "path"));
    return handle_of<saeta_writer>(std::make_shared<ipc::writer>(file, std::nullopt, writing(options)));
  });
}

saeta_code saeta_writer_write(saeta_writer* to, saeta_table* of) {
  return run([&] { get(to, "writer")->write(*get(of, "table")); });
}

saeta_code saeta_writer_close(saeta_writer* of, uint64_t* bytes) {
  return run([&] {
    const std::uint64_t written = get(of, "writer")->close();
    if (bytes != nullptr) {
      *bytes = written;
    }
  });
}

saeta_code saeta_pack(saeta_table* of, saeta_packed** result) {
  return give(result, [&] { return handle_of_value<saeta_packed>(ipc::pack(*get(of, "table"))); });
}

saeta_code saeta_packed_metadata(saeta_packed* of, const void** metadata, size_t* bytes) {
  return run([&] {
    const auto packed = get(of, "packed");
    require_argument(metadata, "metadata");
    set(bytes, packed->metadata.size());
    *metadata = packed->metadata.data();
  });
}

saeta_code saeta_packed_body(saeta_packed* of, saeta_buffer** result) {
  return give(result, [&] { return handle_of_value<saeta_buffer>(get(of, "packed")->body); });
}

saeta_code saeta_unpack(saeta_context* ctx, const void* metadata, size_t bytes, saeta_buffer* body,
                        saeta_table** result) {
  return give(result, [&] {
    const auto into = get(ctx, "context");
    require_argument(metadata, "metadata");
    return handle_of_value<saeta_table>(
        ipc::unpack(into, {static_cast<const std::byte*>(metadata), bytes}, *get(body, "body")));
  });
}

saeta_code saeta_spill_keep(saeta_context* ctx, saeta_table* of, int32_t priority, saeta_spill** result) {
  return give(result, [&] {
    return handle_of_value<saeta_spill>(spillable(get(ctx, "context"), *get(of, "table"), priority));
  });
}

saeta_code saeta_spill_keep_compressed(saeta_context* ctx, saeta_table* of, int32_t priority,
                                       int32_t compress, saeta_spill** result) {
  return give(result, [&] {
    if (compress != 0 && compress != 1) {
      throw error(errc::invalid_argument, concat("compress is ", compress, ", expected 0 or 1"));
    }
    return handle_of_value<saeta_spill>(
        spillable(get(ctx, "context"), *get(of, "table"), priority, compress == 1));
  });
}

saeta_code saeta_spill_stored_bytes(saeta_spill* of, uint64_t* bytes) {
  return run([&] { set(bytes, get(of, "spill")->stored_bytes()); });
}

saeta_code saeta_spill_use(saeta_spill* of, saeta_context* ctx, saeta_table** result) {
  return give(result, [&] {
    const auto used = std::make_shared<const spill_use>(get(of, "spill")->use(get(ctx, "context")));
    return handle_of<saeta_table>(std::shared_ptr<const table>(used, &used->value()));
  });
}

saeta_code saeta_spill_move(saeta_spill* of, int32_t tier, int32_t* moved_to) {
  return run([&] {
    const auto kept = get(of, "spill");
    if (tier < SAETA_TIER_ANY || tier > SAETA_TIER_FILE) {
      throw error(errc::invalid_argument, concat("the tier is ", tier, ", expected -1 to 3"));
    }
    const auto moved =
        kept->spill(tier == SAETA_TIER_ANY ? std::nullopt : std::optional(static_cast<spill_tier>(tier)));
    if (moved_to != nullptr) {
      *moved_to = static_cast<std::int32_t>(moved);
    }
  });
}

saeta_code saeta_spill_tier(saeta_spill* of, int32_t* tier) {
  return run([&] { set(tier, get(of, "spill")->tier()); });
}

saeta_code saeta_spill_unused(saeta_context* ctx, uint64_t bytes, uint64_t* moved) {
  return run([&] {
    const std::uint64_t sum = spill_unused(get(ctx, "context"), bytes);
    if (moved != nullptr) {
      *moved = sum;
    }
  });
}

saeta_code saeta_share(saeta_table* of, saeta_shared** result) {
  return give(result, [&] { return handle_of_value<saeta_shared>(held_share(share(*get(of, "table")))); });
}

saeta_code saeta_shared_token(saeta_shared* of, const void** token, size_t* bytes) {
  return run([&] {
    const auto held = get(of, "shared");
    require_argument(token, "token");
    set(bytes, held->token.size());
    *token = held->token.data();
  });
}

saeta_code saeta_open_shared(saeta_context* ctx, const void* token, size_t bytes, saeta_table** result) {
  return give(result, [&] {
    const auto into = get(ctx, "context");
    require_argument(token, "token");
    return handle_of_value<saeta_table>(
        open_shared(into, share_token::from_bytes({static_cast<const std::byte*>(token), bytes})));
  });
}
