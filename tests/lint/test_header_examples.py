"""The examples in public C++ headers, `@code` to `@endcode`, compile, and name every public class. An example
is the body of a function with the parameters GIVEN. `launch` stands for a kernel of the reader."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import lint_structure
from code_blocks import ROOT, compile_command
from site_hooks import DETAIL

EXAMPLE = re.compile(r"^(///?) @code\n(?P<text>(?:\1.*\n)+?)\1 @endcode$", re.MULTILINE)
CLASS = re.compile(r"^class (\w+)(?=[^;]*\{)", re.MULTILINE)
BEGINNING = """#include <cstring>
#include <iostream>
using namespace saeta; using namespace saeta::ipc;
template <class... Arguments> void launch(stream_ref stream, const Arguments&... arguments);
"""
GIVEN = """const std::shared_ptr<context>& ctx, stream_ref stream, const std::shared_ptr<backend>& device,
    const std::shared_ptr<resource>& upstream, const table& orders, const column& price, const column& city,
    const column& count, const column& indices, const buffer& bytes, const buffer& result,
    std::span<const float> values, const host_batch& rows, const host_array& names, const host_array& symbols,
    const ArrowArray& array, std::span<ArrowArray> received, std::shared_ptr<void> keepalive,
    std::vector<std::unique_ptr<reader>> readers"""
# For the headers of each library: a source of the build that has their compile options, and more parameters.
LIBRARIES = {
    "saeta": ("saeta_memory.dir", ""),
    "bridge": ("saeta_bridge_", ""),
    "rmm": ("saeta_rmm_tests.dir", ", cuda::stream_ref rmm_stream"),
    "rapidsmpf": ("saeta_rapidsmpf_tests.dir", ", std::shared_ptr<rapidsmpf::BufferResource> resource"),
}
HEADERS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "saeta").rglob("*.hpp"))
    if path.relative_to(ROOT).as_posix() in lint_structure.public_headers(ROOT)
    or path.parent.name in lint_structure.ADAPTORS
}


def library_of(header: str) -> str:
    layer = header.split("/")[1]
    return layer if layer in LIBRARIES else "saeta"


def function_of(header: str, match: re.Match[str], parameters: str) -> str:
    """Returns an example as a function whose lines the compiler numbers as in the header."""
    code = re.sub(rf"^{match[1]} ?", "", match["text"], flags=re.MULTILINE)
    line = lint_structure.line_of(HEADERS[header], match.start("text"))
    name = re.sub(r"\W", "_", f"{header}_{line}")
    return f'void {name}({GIVEN}{parameters}) {{{{\n#line {line} "{header}"\n{code}}}}}\n'


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_examples_of_headers_compile(library: str, tmp_path: Path) -> None:
    like, parameters = LIBRARIES[library]
    functions = [
        function_of(header, match, parameters)
        for header, text in HEADERS.items()
        if library_of(header) == library
        for match in EXAMPLE.finditer(text)
    ]
    source = tmp_path / "examples.cpp"
    includes = [f'#include "{header}"\n' for header in HEADERS if library_of(header) in ("saeta", library)]
    source.write_text("".join([*includes, BEGINNING, *functions]), encoding="utf-8")
    command, folder = compile_command(like, source)
    command += ["-Wno-unused", "-Wno-unused-parameter"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_class_is_named_in_an_example() -> None:
    code = "".join(match["text"] for text in HEADERS.values() for match in EXAMPLE.finditer(text))
    named = set(re.findall(r"\w+", re.sub(r"^///?|(?<=\S) +// .*$", "", code, flags=re.MULTILINE)))
    classes = {name for text in HEADERS.values() for name in CLASS.findall(DETAIL.sub("", text))}
    assert (len(classes) > 80, classes - named) == (True, set())
