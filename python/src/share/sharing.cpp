// Memory that processes share: exports of this process, and tables and device memory of others.
//
// All waits end if a signal handler raises. Descriptors and leases are C++ objects, so nothing is lost then.
#include "python/src/core/python_bytes.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/runtime/runtime.hpp"
#include "saeta/share/broker.hpp"
#include "saeta/share/shared_table.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace saeta::py {
namespace {

/// Calls without the GIL. Memory of a process of another user is an AccessError.
template <class Call>
auto asking(Call&& call) {
  try {
    return without_gil(std::forward<Call>(call));
  } catch (const error& failure) {
    if (failure.code() != errc::io || failure.error_number() != EACCES) {
      throw;
    }
    foreign_call([&] {
      const nb::object made = nb::module_::import_("saeta.errors").attr("AccessError")(failure.message());
      PyErr_SetObject(made.type().ptr(), made.ptr());
    });
    throw nb::python_error();
  }
}

std::span<const std::byte> bytes_in(const nb::bytes& of) {
  return {reinterpret_cast<const std::byte*>(of.c_str()), of.size()};
}

nb::bytes bytes_object(std::span<const std::byte> bytes) { return nb::bytes(bytes.data(), bytes.size()); }

share_token::id id_in(nb::handle of) {
  const auto bytes = nb::cast<nb::bytes>(of);
  share_token::id found{};
  if (bytes.size() != found.size()) {
    throw error(errc::format, concat("an id of ", bytes.size(), " bytes, not ", found.size()));
  }
  std::memcpy(found.data(), bytes.data(), found.size());
  return found;
}

/// A place (python/saeta/_share/tables.py) as a token.
share_token token_in(const nb::tuple& place) {
  share_token made;
  made.machine = id_in(place[0]);
  const auto broker = nb::cast<nb::bytes>(place[1]);
  made.broker.assign(broker.c_str(), broker.size());
  made.key = id_in(place[2]);
  if (nb::cast<nb::bytes>(place[3]).size() != 0) {
    made.device = id_in(place[3]);
  }
  made.nbytes = nb::cast<std::uint64_t>(place[4]);
  made.posted = nb::cast<bool>(place[5]);
  return made;
}

nb::tuple place_of(const share_token& token) {
  return nb::make_tuple(bytes_object(token.machine), nb::bytes(token.broker.data(), token.broker.size()),
                        bytes_object(token.key),
                        token.device ? bytes_object(*token.device) : nb::bytes("", 0), token.nbytes,
                        token.posted);
}

/// Opens the context of a GPU with an exportable pool, if it is not open and the device has such pools.
std::shared_ptr<context> shareable_context(device_id device) {
  if (auto open = find_context(device)) {
    return open;
  }
  open_options options;
  options.exportable_pool = true;
  try {
    return open_context(device, options);
  } catch (const error& refused) {
    if (refused.code() != errc::invalid_argument && refused.code() != errc::unsupported) {
      throw;
    }
  }
  return open_context(device); // the stack has no driver pool, or another thread opened the context meanwhile
}

/// The GPUs, asked once: listing the devices takes 100 microseconds.
const std::vector<device_id>& gpus() {
  struct listed {
    std::vector<device_id> all;
    listed() {
      for (const device_entry& each : devices()) {
        if (each.id.kind != device_kind::cpu) {
          all.push_back(each.id);
        }
      }
    }
  };
  static per_process<listed> known;
  return known.get().all;
}

/// The context of the GPU that has the shared memory; `given` if it is one.
std::shared_ptr<context> home_of(const share_token& token, const std::shared_ptr<context>& given) {
  if (given != nullptr && !given->on_host() && device_identity(*given) == *token.device) {
    return given;
  }
  for (const device_id each : gpus()) {
    if (auto home = shareable_context(each); device_identity(*home) == *token.device) {
      return home;
    }
  }
  throw error(errc::invalid_argument,
              "the shared table is on a GPU that this process does not have: copy it through the host (share "
              "table.to('host'))");
}

using exported_pointer = unlocked<std::shared_ptr<exported>>;

struct exported_object {
  exported_pointer memory;
};

nb::object export_or_none(std::shared_ptr<exported> found) {
  return found == nullptr ? nb::none() : nb::cast(exported_object{exported_pointer(std::move(found))});
}

/// Makes an export of a packed table by a call with its context.
template <class Call>
exported_object export_packed(const nb::bytes& metadata, const column_object& body, Call&& make) {
  ipc::packed_table packed;
  const auto bytes = bytes_in(metadata);
  packed.metadata.assign(bytes.begin(), bytes.end());
  packed.body = bytes_of_column(body);
  return {exported_pointer(asking([&] { return make(body.ctx, std::move(packed)); }))};
}

/// Exports the bytes of a buffer, or waits for the last writes of an earlier export of them that is valid.
exported_object share_buffer(const context_object& home, nb::handle memory, nb::handle known) {
  const buffer bytes = memory.is_none() ? buffer() : *nb::cast<const buffer_object&>(memory).value;
  const auto before = known.is_none() ? nullptr : *nb::cast<const exported_object&>(known).memory;
  return {exported_pointer(asking([&] {
    const std::shared_ptr<broker> own = broker::own();
    if (before != nullptr && before->token().broker == own->name()) {
      if (before->body().present()) {
        synchronize_handover({&before->body(), 1});
      }
      return before;
    }
    std::shared_ptr<exported> made = exported::bytes(home.value, bytes.size() == 0 ? buffer() : bytes);
    own->add(made);
    return made;
  }))};
}

/// An open table: whether its values were checked, and whether its producer lives.
struct opened_object {
  unlocked<opened_form> form;
  bool unchecked = false;
};

void check_values(opened_object& self) {
  if (self.unchecked) {
    const opened_form& form = *self.form;
    without_gil([&] { static_cast<void>(ipc::unpack(form.home, form.metadata, form.body)); });
    self.unchecked = false;
  }
}

nb::tuple open_table(const nb::tuple& place, nb::handle where, bool validate) {
  const share_token token = token_in(place);
  const std::shared_ptr<context> given =
      where.is_none() ? nullptr : std::shared_ptr<context>(nb::cast<const context_object&>(where).value);
  auto [found, form] = asking([&] {
    opened_form opened = opened_form::open(token, [&](const share_token& of, bool on_host) {
      return on_host ? open_context(device_id{}) : home_of(of, given);
    });
    const bool checked = validate && opened.here == nullptr;
    table made = ipc::unpack(opened.home, opened.metadata, opened.body,
                             checked ? validation::full : validation::structure);
    if (token.device && made.ctx()->on_host()) { // its process has ended and left a copy on the host
      made = copy_to(made, home_of(token, given));
    }
    if (checked || opened.here != nullptr) { // the table has what it needs
      opened.metadata.clear();
      opened.body = buffer();
    }
    return std::pair(table_object(std::move(made)), std::move(opened));
  });
  nb::object here = export_or_none(std::move(form.here));
  const bool unchecked = !validate && here.is_none();
  return nb::make_tuple(std::move(found), opened_object{unlocked(std::move(form)), unchecked},
                        std::move(here));
}

std::chrono::milliseconds milliseconds_in(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

void set_limits(nb::handle wait, nb::handle silent, nb::handle starvation, nb::handle most_silent,
                nb::handle largest_reply, nb::handle machine_id) {
  share_limits limits;
  const auto set = [](std::chrono::milliseconds& to, nb::handle seconds) {
    if (!seconds.is_none()) {
      to = milliseconds_in(nb::cast<double>(seconds));
    }
  };
  set(limits.wait, wait);
  set(limits.silent, silent);
  set(limits.starvation, starvation);
  if (!most_silent.is_none()) {
    limits.most_silent = nb::cast<std::size_t>(most_silent);
  }
  if (!largest_reply.is_none()) {
    limits.largest_reply = nb::cast<std::size_t>(largest_reply);
  }
  if (!machine_id.is_none()) {
    limits.machine_id = (new std::string(nb::cast<std::string>(machine_id)))->c_str(); // for ever: for tests
  }
  set_share_limits(limits);
}

void bind_exports(nb::module_& m) {
  nb::class_<exported_object>(
      m, "_Exported", nb::is_weak_referenceable(),
      "Memory that other processes may open: kept while the object lives, and while a "
      "process has it open.")
      .def_prop_ro(
          "place", [](const exported_object& self) { return place_of((*self.memory)->token()); },
          nb::sig("def place(self) -> tuple[bytes, bytes, bytes, bytes, int, bool]"),
          "The machine, the broker, the token, the device (b'' for the host), the number of bytes, False.")
      .def_prop_ro(
          "reply", [](const exported_object& self) { return bytes_object((*self.memory)->reply()); },
          "What a process gets that opens it.")
      .def_prop_ro(
          "file", [](const exported_object& self) { return (*self.memory)->file(); },
          "The descriptor that is sent with the reply; -1 if there is none.")
      .def_prop_ro(
          "memory", [](const exported_object& self) { return buffer_object((*self.memory)->body()); },
          "The shared bytes of a buffer.")
      .def(
          "packed",
          [](const exported_object& self) {
            const exported& of = **self.memory;
            return nb::make_tuple(bytes_object(of.metadata()), column_of_bytes(of.home(), of.body()));
          },
          nb::sig("def packed(self) -> tuple[bytes, Column]"), "Metadata and body of a table on a GPU.")
      .def(
          "post",
          [](const exported_object& self) { without_gil([&] { broker::own()->post(*self.memory); }); },
          "Keeps the memory until a process has opened it by a posted token that is sent now.");
  m.def(
      "_share_packed",
      [](const nb::bytes& metadata, const column_object& body) {
        return export_packed(metadata, body, [](const auto& ctx, ipc::packed_table packed) {
          return share(ctx, std::move(packed)).memory();
        });
      },
      nb::arg("metadata"), nb::arg("body"),
      nb::sig("def _share_packed(metadata: bytes, body: Column) -> _Exported"), "Shares a packed table.");
  m.def(
      "_export_packed",
      [](const nb::bytes& metadata, const column_object& body) {
        return export_packed(metadata, body, &exported::packed);
      },
      nb::arg("metadata"), nb::arg("body"),
      nb::sig("def _export_packed(metadata: bytes, body: Column) -> _Exported"),
      "The same without the broker, which may have ended.");
  m.def(
      "_share_buffer", &share_buffer, nb::arg("where"), nb::arg("memory").none(), nb::arg("known").none(),
      nb::sig(
          "def _share_buffer(where: Context, memory: Buffer | None, known: _Exported | None) -> _Exported"),
      "Shares device memory after its last writes; None: no bytes. Returns `known`, an earlier export of the "
      "same bytes, where it is still valid.");
}

void bind_broker(nb::module_& m) {
  m.def(
      "_find_shared",
      [](const nb::bytes& key) {
        const share_token::id which = id_in(key);
        return export_or_none(without_gil([&] {
          const std::shared_ptr<broker> own = broker::running();
          return own == nullptr ? nullptr : own->find(which);
        }));
      },
      nb::arg("token"), nb::sig("def _find_shared(token: bytes) -> _Exported | None"),
      "What this process shares under a token.");
  m.def(
      "_broker_name",
      [] {
        const std::string name = asking([] { return broker::own()->name(); });
        return nb::bytes(name.data(), name.size());
      },
      "The name of the socket of this process, whose broker is started.");
  m.def(
      "_posted_shared",
      [] {
        nb::list found;
        if (const auto own = without_gil([] { return broker::running(); })) {
          for (auto& [memory, tokens] : without_gil([&] { return own->posted(); })) {
            found.append(nb::make_tuple(exported_object{exported_pointer(std::move(memory))}, tokens));
          }
        }
        return found;
      },
      nb::sig("def _posted_shared() -> list[tuple[_Exported, int]]"),
      "The exports whose tokens are in transit, with the number of tokens.");
  m.def(
      "_wait_for_arrivals",
      [](double seconds) {
        return without_gil([&] {
          const std::shared_ptr<broker> own = broker::running();
          return own == nullptr || own->wait_for_arrivals(milliseconds_in(seconds));
        });
      },
      nb::arg("seconds"), "Waits for the tokens in transit. Returns whether all have arrived.");
  m.def(
      "_retire_broker", [] { return without_gil([] { return broker::own()->retire(); }); },
      "Ends the thread of the broker and all connections. Returns the number of its socket.");
  m.def("_share_limits", &set_limits, nb::kw_only(), nb::arg("wait") = nb::none(),
        nb::arg("silent") = nb::none(), nb::arg("starvation") = nb::none(),
        nb::arg("most_silent") = nb::none(), nb::arg("largest_reply") = nb::none(),
        nb::arg("machine_id") = nb::none(),
        nb::sig(
            "def _share_limits(*, wait: float | None = None, silent: float | None = None, starvation: float "
            "| None = None, most_silent: int | None = None, largest_reply: int | None = None, machine_id: "
            "str | None = None) -> None"),
        "Sets how long processes wait for each other, in seconds; None: the usual. For tests.");
}

void bind_opened(nb::module_& m) {
  nb::class_<opened_object>(m, "_Opened", "What is known of an open table.")
      .def_ro("unchecked", &opened_object::unchecked, "Whether the values were not checked.")
      .def("check", &check_values, "Checks the values, if the table was opened without a check.")
      .def(
          "ended", [](const opened_object& self) { return (*self.form).producer_ended(); },
          "Whether the process that shared it has ended: nobody else can open it.");
  m.def(
      "_open_shared", &open_table, nb::arg("place"), nb::arg("where").none(), nb::arg("validate"),
      nb::sig("def _open_shared(place: tuple[bytes, bytes, bytes, bytes, int, bool], where: Context | None, "
              "validate: bool) -> tuple[Table, _Opened, _Exported | None]"),
      "Opens a table, in `where` if that is a context of the GPU that has it. The export, if this process "
      "shares it.");
  m.def(
      "_post_shared",
      [](const nb::tuple& place) {
        const share_token token = token_in(place);
        asking([&] { post_shared(token); });
      },
      nb::arg("place"),
      nb::sig("def _post_shared(place: tuple[bytes, bytes, bytes, bytes, int, bool]) -> None"),
      "Tells the process that shares a table that a posted token of it is sent on.");
  m.def(
      "_note_arrival",
      [](const nb::tuple& place) {
        const share_token token = token_in(place);
        asking([&] { note_shared_arrival(token); });
      },
      nb::arg("place"),
      nb::sig("def _note_arrival(place: tuple[bytes, bytes, bytes, bytes, int, bool]) -> None"),
      "Tells it that a posted token has arrived.");
  m.def(
      "_open_shared_buffer",
      [](const context_object& where, const nb::tuple& place, const std::string& tag) {
        const share_token token = token_in(place);
        const std::shared_ptr<context> into = where.value;
        return buffer_object(asking([&] { return open_shared_bytes(into, token, tag); }));
      },
      nb::arg("where"), nb::arg("place"), nb::arg("tag"),
      nb::sig(
          "def _open_shared_buffer(where: Context, place: tuple[bytes, bytes, bytes, bytes, int, bool], tag: "
          "str) -> Buffer"),
      "Opens device memory that `_share_buffer` has shared.");
  m.def(
      "_token_bytes", [](const nb::tuple& place) { return bytes_object(token_in(place).to_bytes()); },
      nb::arg("place"),
      nb::sig("def _token_bytes(place: tuple[bytes, bytes, bytes, bytes, int, bool]) -> bytes"));
  m.def(
      "_token_place",
      [](const nb::bytes& bytes) { return place_of(share_token::from_bytes(bytes_in(bytes))); },
      nb::arg("content"),
      nb::sig("def _token_place(content: bytes) -> tuple[bytes, bytes, bytes, bytes, int, bool]"));
  m.def(
      "_is_broker_name",
      [](const nb::bytes& name) {
        return is_broker_name({name.c_str(), name.size()});
      },
      nb::arg("name"));
  m.def(
      "_machine_id", [] { return bytes_object(machine_id()); },
      "16 bytes that are unique to this machine and change with its next start.");
  m.def(
      "_imported_brokers",
      [](const context_object& where) {
        nb::list names;
        for (const std::string& each : imported_brokers(*where.value)) {
          names.append(nb::bytes(each.data(), each.size()));
        }
        return names;
      },
      nb::arg("where"), nb::sig("def _imported_brokers(where: Context) -> list[bytes]"),
      "Of the processes whose pools are imported for the device.");
  m.def("_close_idle_connections", &close_idle_connections,
        "Closes the connections that are kept for the next open.");
}

} // namespace

void bind_sharing(nb::module_& m) {
  bind_exports(m);
  bind_broker(m);
  bind_opened(m);
  m.def(
      "_shareable_context",
      [](const std::string& name) {
        return without_gil([&] { return context_object{shareable_context(parse_device(name))}; });
      },
      nb::arg("device"), nb::sig("def _shareable_context(device: str) -> Context"),
      "The context of a device, opened with an exportable pool if it was not open.");
  m.def(
      "_device_uuid",
      [](const context_object& where) {
        return bytes_object(without_gil([&] { return device_identity(*where.value); }));
      },
      nb::arg("where"), nb::sig("def _device_uuid(where: Context) -> bytes"),
      "16 bytes that name the device in every process of the machine.");
}

} // namespace saeta::py
