"""The C interface, called through ctypes: exchange with pyarrow, and calls with wrong arguments.

The functions and their parameters are read from saeta.h, so that a new function is called, too.
"""

from __future__ import annotations

import ctypes
import random
import re
import threading

import pytest

import saeta as sa
from c_library import library_path
from code_blocks import ROOT

HEADER = (ROOT / "saeta/capi/saeta.h").read_text(encoding="utf-8")
DECLARATION = re.compile(r"^SAETA_C_API ([\w ]+?\*?)\s*(saeta_\w+)\(([^)]*)\);", re.MULTILINE | re.DOTALL)
CODES = {
    name: int(number)
    for name, number in re.findall(
        r"(SAETA_\w+) = (\d+)", HEADER.partition("typedef int32_t saeta_code;")[2].partition("};")[0]
    )
}
HANDLES = {"context", "buffer", "use", "table", "scan", "writer", "packed", "spill", "shared"}
OK, INVALID = 0, 1


class LastError(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_int32),
        ("error_number", ctypes.c_int32),
        ("message", ctypes.c_char_p),
        *(
            (name, ctypes.c_uint64)
            for name in ("requested", "current", "reserved", "limit", "remaining", "peak")
        ),
    )


def parameters_of(text: str) -> list[tuple[str, str]]:
    """Returns the types and names of the parameters: `const char*`, `name`."""
    if text.strip() == "void":
        return []
    found = [re.fullmatch(r"(.*?[\s*])(\w+)", " ".join(part.split())) for part in text.split(",")]
    return [(each[1].replace(" ", ""), each[2]) for each in found if each]


FUNCTIONS = {name: parameters_of(text) for _, name, text in DECLARATION.findall(HEADER)}


@pytest.fixture(scope="module")
def c():
    library = ctypes.CDLL(library_path())
    for name, parameters in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = ctypes.c_int32
        function.argtypes = [
            ctypes.c_char_p
            if kind == "constchar*"
            else ctypes.c_void_p
            if "*" in kind
            else {"uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64}.get(
                kind, ctypes.c_int32
            )
            for kind, _ in parameters
        ]
    library.saeta_last_error.restype = ctypes.POINTER(LastError)
    for name in ("saeta_version", "saeta_code_name"):
        getattr(library, name).restype = ctypes.c_char_p
    return library


def made_by(function, *arguments) -> int:
    """Calls a function whose last parameter gets a handle."""
    handle = ctypes.c_void_p()
    code = function(*arguments, ctypes.byref(handle))
    assert (code, handle.value is not None) == (OK, True)
    return handle.value


def number_of(function, handle: int, kind=ctypes.c_int64) -> int:
    found = kind()
    assert function(handle, ctypes.byref(found)) == OK
    return found.value


def struct_in(capsule, name: str) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name.encode())


@pytest.fixture
def ctx(c):
    handle = made_by(c.saeta_context_open, b"host", None)
    yield handle
    assert c.saeta_release(handle) == OK


def test_every_function_of_the_header_is_found():
    assert len(FUNCTIONS) == HEADER.count("\nSAETA_C_API") >= 50
    assert {"saeta_read", "saeta_release", "saeta_table_import_stream"} < set(FUNCTIONS)


def test_versions_and_codes_are_those_of_the_package(c):
    assert c.saeta_version().decode() == sa.__version__
    assert c.saeta_c_version() == int(re.search(r"#define SAETA_C_VERSION (\d+)", HEADER)[1])
    for name, number in CODES.items():
        assert c.saeta_code_name(number).decode() == name.removeprefix("SAETA_").lower()


def test_tables_come_from_pyarrow_and_go_back(c, ctx):
    pa = pytest.importorskip("pyarrow")
    source = pa.table({"n": [1, None, 3], "s": ["a", "b", None], "l": [[1], [], [2, 3]]})
    stream = source.__arrow_c_stream__()
    table = made_by(c.saeta_table_import_stream, ctx, struct_in(stream, "arrow_array_stream"))
    assert number_of(c.saeta_table_rows, table) == 3
    exported = ctypes.create_string_buffer(64)
    assert c.saeta_table_export_stream(table, exported) == OK
    assert c.saeta_release(table) == OK
    back = pa.RecordBatchReader._import_from_c(ctypes.addressof(exported)).read_all()
    assert back.equals(source)


def test_the_package_and_a_c_program_share_the_budget_of_the_process(c, ctx):
    used = sa.context("host").memory.statistics()["current"]
    buffer = made_by(c.saeta_buffer_allocate, ctx, 1000, 8, b"c")
    assert sa.context("host").memory.statistics()["current"] == used + 8000
    assert c.saeta_release(buffer) == OK


def test_the_last_error_belongs_to_the_thread(c, ctx):
    assert c.saeta_table_rows(None, None) == INVALID
    seen = []

    def work():
        seen.append(c.saeta_last_error().contents.code)
        c.saeta_context_open(b"no device", None, None)
        seen.append(c.saeta_last_error().contents.message)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [OK, b"the argument 'result' is null"]
    assert c.saeta_last_error().contents.message == b"the argument 'table' is null"


def test_a_handle_may_be_released_while_threads_use_it(c, ctx):
    table = _small_table(c, ctx)
    codes: list[int] = []

    def work():
        rows = ctypes.c_int64()
        code = OK
        while code == OK:
            code = c.saeta_table_rows(table, ctypes.byref(rows))
        codes.append(code)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert c.saeta_release(table) == OK
    for thread in threads:
        thread.join()
    assert codes == [INVALID] * 4


def _small_table(c, ctx) -> int:
    stream = sa.table({"n": range(10)}, "host").__arrow_c_stream__()
    return made_by(c.saeta_table_import_stream, ctx, struct_in(stream, "arrow_array_stream"))


def _handles(c, ctx, folder) -> dict[str, int]:
    """Returns a live handle of each kind."""
    table = _small_table(c, ctx)
    buffer = made_by(c.saeta_buffer_allocate, ctx, 8, 8, None)
    file = str(folder / "f.arrow").encode()
    assert c.saeta_write(table, file, None, None) == OK
    paths = (ctypes.c_char_p * 1)(file)
    buffers, modes = (ctypes.c_void_p * 1)(buffer), (ctypes.c_int32 * 1)(1)
    return {
        "context": ctx,
        "buffer": buffer,
        "use": made_by(c.saeta_use_begin, ctx, 0, buffers, modes, 1),
        "table": table,
        "scan": made_by(c.saeta_scan_open, ctx, paths, 1, None),
        "writer": made_by(c.saeta_writer_open, str(folder / "w.arrow").encode(), None),
        "packed": made_by(c.saeta_pack, table),
        "spill": made_by(c.saeta_spill_keep, ctx, table, 0),
        "shared": made_by(c.saeta_share, table),
    }


def kind_of(parameter: str) -> str | None:
    """Returns the kind of a parameter that is a handle: "table" of `saeta_table*`."""
    name = re.fullmatch(r"saeta_(\w+)\*", parameter)
    return name[1] if name and name[1] in HANDLES else None


def test_a_wrong_handle_is_refused_wherever_a_handle_is_taken(c, ctx, tmp_path):
    live = _handles(c, ctx, tmp_path)
    released = made_by(c.saeta_buffer_allocate, ctx, 1, 1, None)
    assert c.saeta_release(released) == OK
    room = ctypes.create_string_buffer(4096)
    tried = 0
    for name, parameters in FUNCTIONS.items():
        kinds = [kind_of(kind) for kind, _ in parameters]
        for place, kind in enumerate(kinds):
            if kind is None:
                continue
            wrong = [None, released, 8, 2**64 - 8, ctypes.addressof(room)]
            wrong += [handle for other, handle in live.items() if other != kind]
            for bad in wrong:
                arguments = [
                    bad
                    if at == place
                    else live[each]
                    if each
                    else b"x"
                    if parameters[at][0] == "constchar*"
                    else ctypes.addressof(room)
                    if "**" in parameters[at][0] or parameters[at][0].endswith("_t*")
                    else None
                    if "*" in parameters[at][0]
                    else 1
                    for at, each in enumerate(kinds)
                ]
                assert getattr(c, name)(*arguments) == INVALID, (name, place, bad)
                assert c.saeta_last_error().contents.message, name
                tried += 1
    assert tried > 600
    for handle in [released, 8, 2**64 - 8]:
        assert c.saeta_release(handle) == INVALID
    for kind, handle in live.items():
        if kind != "context":
            assert c.saeta_release(handle) == OK, kind


@pytest.mark.parametrize("seed", range(4))
def test_random_calls_return_a_code(c, ctx, tmp_path, monkeypatch, seed):
    """Handles of any kind, some of them released, nulls, and numbers at the ends of their range."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(seed)
    part = made_by(c.saeta_context_child, ctx, b"part", 1 << 20)
    live = list(_handles(c, part, tmp_path).values())
    strange = [None, 1, 2**64 - 8]
    numbers = [0, 1, 2, 7, 2**31 - 1, 2**63 - 1]
    names = [
        name
        for name, parameters in sorted(FUNCTIONS.items())
        # The context of the process is of others, and the structs of exports have to be released.
        if parameters and not name.startswith(("saeta_context_open", "saeta_table_export", "saeta_code_name"))
    ]
    rooms = [ctypes.create_string_buffer(4096) for _ in range(8)]
    for _ in range(3000):
        name = draw.choice(names)
        arguments = []
        for at, (kind, label) in enumerate(FUNCTIONS[name]):
            room = rooms[at]
            if kind_of(kind) or (kind == "void*" and label == "handle"):
                handle = draw.choice(live if draw.random() < 0.9 else strange)
                arguments.append(handle)
            elif "*" not in kind:
                # Sizes that the caller promises to have are never larger than the room.
                arguments.append(
                    draw.choice([0, 1] if label in ("count", "bytes", "column_count") else numbers)
                )
            elif kind == "constchar*":
                arguments.append(draw.choice([None, b"", b"n", b"host", str(tmp_path / "f.arrow").encode()]))
            elif kind in ("constchar*const*", "saeta_buffer*const*", "constint32_t*"):
                ctypes.memset(room, 0, 64)
                arguments.append(draw.choice([None, ctypes.addressof(room)]))
            else:  # structs are released ones, and have a size of 0
                ctypes.memset(room, 0, 4096)
                arguments.append(draw.choice([None, ctypes.addressof(room)]))
        code = getattr(c, name)(*arguments)
        assert OK <= code <= CODES["SAETA_INTERNAL"] - 1, (
            name,
            arguments,
            c.saeta_last_error().contents.message,
        )
        kind, _ = FUNCTIONS[name][-1]
        if code == OK and re.fullmatch(r"saeta_\w+\*\*", kind):
            made = ctypes.c_void_p.from_buffer(rooms[len(FUNCTIONS[name]) - 1]).value
            live += [made] if made else []
    for handle in live:
        c.saeta_release(handle)
