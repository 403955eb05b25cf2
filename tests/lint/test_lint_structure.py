"""Each rule of scripts/lint_structure.py rejects a violation and accepts what is allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import lint_structure as lint  # noqa: E402

ORDER = [
    "base",
    "device",
    "order",
    "resource",
    "memory",
    "column",
    "staging",
    "transfer",
    "compute",
    "symbols",
    "interop",
    "ipc",
]


class Everything(frozenset[str]):
    def __contains__(self, header: object) -> bool:
        return True


def rules(path: str, source: str, public: frozenset[str] = Everything()) -> set[str]:
    return {finding.rule for finding in lint.check_file(path, source, public)}


def including(header: str) -> str:
    return f'#pragma once\n#include "{header}"\n'


@pytest.mark.parametrize("left", ORDER)
@pytest.mark.parametrize("right", ORDER)
def test_a_layer_includes_only_itself_and_lower_layers(left: str, right: str) -> None:
    allowed = ORDER.index(right) <= ORDER.index(left)
    assert rules(f"saeta/{left}/a.hpp", including(f"saeta/{right}/b.hpp")) == (
        set() if allowed else {"layer"}
    )


@pytest.mark.parametrize("layer", ["base", "device"])
@pytest.mark.parametrize("backend", ["host", "cuda", "sim"])
def test_a_backend_includes_base_device_and_itself(backend: str, layer: str) -> None:
    path = f"saeta/backend/{backend}/a.hpp"
    assert rules(path, including(f"saeta/{layer}/b.hpp")) == set()
    assert rules(path, including(f"saeta/backend/{backend}/b.hpp")) == set()


@pytest.mark.parametrize("layer", ["memory", "column", "transfer", "interop", "ipc", "runtime"])
def test_a_backend_includes_no_other_layer(layer: str) -> None:
    assert rules("saeta/backend/host/a.hpp", including(f"saeta/{layer}/b.hpp")) == {"layer"}


def test_backends_never_include_each_other() -> None:
    assert rules("saeta/backend/cuda/kernels/a.cu", including("saeta/backend/host/b.hpp")) == {"layer"}


@pytest.mark.parametrize("layer", ORDER)
def test_no_layer_but_runtime_includes_a_backend(layer: str) -> None:
    source = including("saeta/backend/host/host_backend.hpp")
    assert rules(f"saeta/{layer}/a.cpp", source) == {"layer"}
    assert rules("saeta/runtime/a.cpp", source) == set()


def test_runtime_includes_neither_columns_nor_the_simulated_device() -> None:
    assert rules("saeta/runtime/a.cpp", including("saeta/column/table.hpp")) == {"layer"}
    assert rules("saeta/runtime/a.cpp", including("saeta/backend/sim/sim_backend.hpp")) == {"layer"}


@pytest.mark.parametrize("layer", [*ORDER, "runtime"])
def test_rmm_includes_layers_up_to_memory_and_no_layer_includes_it(layer: str) -> None:
    allowed = ORDER.index(layer) <= ORDER.index("memory") if layer in ORDER else False
    assert rules("saeta/rmm/a.hpp", including(f"saeta/{layer}/b.hpp")) == (set() if allowed else {"layer"})
    assert rules(f"saeta/{layer}/a.cpp", including("saeta/rmm/b.hpp")) == {"layer"}
    assert rules("tests/rmm/a.cpp", including("saeta/rmm/b.hpp")) == set()


@pytest.mark.parametrize("layer", [*ORDER, "runtime", "spill", "rmm"])
def test_rapidsmpf_includes_neither_bridge_nor_runtime_and_no_layer_includes_it(layer: str) -> None:
    allowed = layer in (*ORDER, "spill", "rmm") and layer != "bridge"
    source = including(f"saeta/{layer}/b.hpp")
    assert rules("saeta/rapidsmpf/a.hpp", source) == (set() if allowed else {"layer"})
    assert rules(f"saeta/{layer}/a.cpp", including("saeta/rapidsmpf/b.hpp")) == {"layer"}
    assert rules("tests/rapidsmpf/a.cpp", including("saeta/rapidsmpf/b.hpp")) == set()


@pytest.mark.parametrize("folder", ["python/src", "bench", "examples"])
def test_only_tests_include_a_backend_from_outside_the_library(folder: str) -> None:
    source = including("saeta/backend/host/host_backend.hpp")
    assert rules(f"{folder}/a.cpp", source) == {"layer"}
    assert rules("tests/conformance/a.cpp", source) == set()


def test_installed_headers_alone_export_what_they_declare() -> None:
    plain, exported = (f"#pragma once\nnamespace {macro}saeta {{\n}}\n" for macro in ("", "SAETA_EXPORT "))
    installed = frozenset({"saeta/memory/a.hpp"})
    assert rules("saeta/memory/a.hpp", exported, installed) == set()
    assert rules("saeta/memory/a.hpp", plain, installed) == {"export"}
    assert rules("saeta/memory/b.hpp", plain, installed) == set()
    assert rules("saeta/memory/b.hpp", exported, installed) == {"export"}
    assert rules("saeta/backend/host/host_backend.hpp", exported, installed) == set()
    assert rules("saeta/rmm/a.hpp", plain, installed) == set()


def test_includes_start_at_the_root_and_name_a_known_layer() -> None:
    assert rules("saeta/memory/a.cpp", '#include "budget.hpp"\n') == {"layer"}
    assert rules("saeta/memory/a.cpp", '#include "saeta/compute/sum.hpp"\n') == {"layer"}


@pytest.mark.parametrize(
    "header", ["cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "cub/cub.cuh", "cuda/std/atomic"]
)
def test_only_the_cuda_backend_and_adaptors_include_cuda_headers(header: str) -> None:
    source = f"#include <{header}>\n"
    adaptors = ("saeta/rmm/a.hpp", "tests/rmm/a.cpp", "saeta/rapidsmpf/a.hpp", "tests/rapidsmpf/a.cpp")
    for path in ("saeta/backend/cuda/a.cpp", *adaptors):
        assert rules(path, f"#pragma once\n{source}") == set()
    assert rules("tests/conformance/a.cpp", source) == {"cuda"}
    assert rules("saeta/runtime/a.cpp", source) == {"cuda"}
    assert rules("python/src/a.cpp", source) == {"cuda"}


@pytest.mark.parametrize("header", ["rmm/resource_ref.hpp", "rapidsmpf/memory/buffer.hpp"])
def test_only_adaptors_and_benchmarks_include_headers_of_rapids(header: str) -> None:
    source = f"#pragma once\n#include <{header}>\n"
    adaptors = ("saeta/rmm/a.hpp", "tests/rmm/a.cpp", "saeta/rapidsmpf/a.hpp", "tests/rapidsmpf/a.cpp")
    for path in (*adaptors, "bench/a.cpp", "python/src/rmm/a.cpp"):
        assert rules(path, source) == set()
    for path in ("saeta/memory/a.hpp", "saeta/backend/cuda/a.cpp", "python/src/a.cpp"):
        assert rules(path, source) == {"cuda"}


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("saeta/interop/a.cpp", True),
        ("saeta/rmm/a.hpp", True),
        ("saeta/backend/cuda/a.cpp", True),
        ("saeta/device/stream.hpp", True),
        ("tests/unit/device/a.cpp", True),
        ("examples/trip.cpp", True),
        ("saeta/memory/a.cpp", False),
        ("saeta/transfer/a.cpp", False),
        ("python/src/a.cpp", False),
    ],
)
def test_native_handles_are_used_only_in_interop_and_backends(path: str, allowed: bool) -> None:
    source = "#pragma once\nauto handle = stream.native_handle();\n"
    assert rules(path, source) == (set() if allowed else {"handle"})


@pytest.mark.parametrize("start", ["std::thread t(f);", "std::vector<std::thread> t;", "std::async(f);"])
def test_only_the_executor_starts_threads(start: str) -> None:
    assert rules("saeta/order/a.cpp", start) == {"thread"}
    assert rules("saeta/executor/a.cpp", start) == set()
    assert rules("tests/unit/order/a.cpp", start) == set()
    assert rules("saeta/order/a.cpp", "std::thread::id me;") == set()


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("backend_->copy(target, source, bytes, kind,\n              stream.native_handle());", True),
        ("where->kernels().count_nulls(stream.native_handle(), bits, 0, n, out);", True),
        ("backend_->fill(p, 0, n, s); keep(stream.native_handle());", False),
        ("if (backend_->idle(s)) { handle = stream.native_handle(); }", False),
    ],
)
def test_a_layer_may_only_pass_a_native_handle_on_to_the_device(statement: str, allowed: bool) -> None:
    assert rules("saeta/memory/a.cpp", statement) == (set() if allowed else {"handle"})


def test_unlisted_headers_are_private_to_their_layer() -> None:
    source = '#include "saeta/resource/cache/store.hpp"\n'
    public = frozenset({"saeta/resource/resource.hpp"})
    assert rules("saeta/resource/cache/a.cpp", source, public) == set()
    assert rules("tests/unit/resource/a.cpp", source, public) == set()
    assert rules("saeta/memory/a.cpp", '#include "saeta/resource/resource.hpp"\n', public) == set()
    assert rules("saeta/memory/a.cpp", source, public) == {"private"}
    assert rules("python/src/a.cpp", source, public) == {"private"}
    assert rules("bench/a.cpp", source, public) == {"private"}


def test_public_headers_are_those_listed_by_their_layers() -> None:
    public = lint.public_headers(ROOT)
    assert {"saeta/memory/context.hpp", "saeta/interop/arrow/c_data.hpp"} <= public
    assert "saeta/resource/cache/store.hpp" not in public
    assert all((ROOT / header).exists() for header in public)


def test_pages_name_paths_and_targets_that_exist(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("docs: package\n")
    (tmp_path / "saeta").mkdir()
    page = "`make docs` and `saeta/` exist,\n`make tea`, `saeta/tea.hpp` and `saeta/*.hpp` do not"
    findings = list(lint.check_names(tmp_path, "a.md", page))
    assert [(finding.line, finding.text.split()[0]) for finding in findings] == [
        (2, "make"), (2, "saeta/tea.hpp"), (2, "saeta/*.hpp"),
    ]  # fmt: skip


def test_headers_and_sources_have_a_maximum_length() -> None:
    lines = "#pragma once\n" + "\n" * (lint.HEADER_LINES - 1)
    assert rules("saeta/base/a.hpp", lines) == set()
    assert rules("saeta/base/a.hpp", lines + "\n") == {"length"}
    lines = "\n" * lint.FILE_LINES
    assert rules("saeta/base/a.cpp", lines) == set()
    assert rules("saeta/base/a.cpp", lines + "\n") == {"length"}
    assert rules("scripts/a.py", lines + "\n") == {"length"}


def test_headers_are_included_once() -> None:
    assert rules("saeta/base/a.hpp", "int f();\n") == {"pragma"}
    assert rules("saeta/base/a.hpp", "// #pragma once\n") == {"pragma"}


def package(root: Path, sources: dict[str, str]) -> list[lint.Finding]:
    """Returns the findings about the imports of a package. `sources` are its modules by their paths."""
    for name, source in ({"__init__": ""} | sources).items():
        path = root / lint.PACKAGE / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return list(lint.check_circles(root))


@pytest.mark.parametrize(
    "back",
    [
        "from saeta import first",
        "import saeta.first",
        "from saeta.first import name",
        "def late():\n    from saeta.first import name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from saeta.first import name",
    ],
)
def test_modules_of_the_package_do_not_import_each_other(tmp_path: Path, back: str) -> None:
    (finding,) = package(tmp_path, {"first": "from saeta import second", "second": back})
    assert (finding.rule, finding.path) == ("circle", lint.PACKAGE)
    assert "saeta.first" in finding.text
    assert "saeta.second" in finding.text


def test_importing_a_name_from_a_package_imports_the_package(tmp_path: Path) -> None:
    sources = {"__init__": "from saeta.first import name", "first": "from saeta import table"}
    (finding,) = package(tmp_path, sources)
    assert finding.rule == "circle"


def test_importing_from_a_subpackage_imports_the_subpackage(tmp_path: Path) -> None:
    part = {"cuda/__init__": "import saeta.first", "cuda/inner": ""}
    (finding,) = package(tmp_path, part | {"first": "from saeta.cuda.inner import name"})
    assert finding.rule == "circle"


def test_modules_import_lower_modules_and_compiled_modules(tmp_path: Path) -> None:
    sources = {"__init__": "from saeta import _core, first", "first": "from saeta import _core, second"}
    assert package(tmp_path, sources | {"second": "from saeta import _ipc\nimport numpy"}) == []


def test_the_package_has_no_import_cycle_and_every_module_is_checked() -> None:
    graph = lint.import_graph(ROOT / lint.PACKAGE)
    assert list(lint.check_circles(ROOT)) == []
    assert "saeta.exchange" in graph["saeta._convert.build"]
    assert {"saeta", "saeta.cuda", "saeta.cli.app", "saeta._files.scan"} <= graph.keys()


def test_folders_of_the_package_have_a_maximum_number_of_sources() -> None:
    paths = [f"python/src/column/{number}.cpp" for number in range(lint.FOLDER_FILES)]
    assert list(lint.check_crowds(paths)) == []
    (finding,) = lint.check_crowds([*paths, "python/src/column/more.hpp"])
    assert (finding.rule, finding.path) == ("crowd", "python/src/column")


def test_comments_are_not_checked_as_code() -> None:
    source = '/*\n#include "saeta/ipc/reader.hpp"\n*/\n// stream.native_handle()\n'
    assert rules("saeta/base/a.cpp", source) == set()


def test_findings_name_the_line() -> None:
    (finding,) = lint.check_file(
        "saeta/base/a.cpp", '// first\n\n#include "saeta/ipc/reader.hpp"\n', Everything()
    )
    assert (finding.path, finding.line) == ("saeta/base/a.cpp", 3)


def test_the_program_fails_on_a_bad_tree_and_passes_a_good_one(tmp_path: Path) -> None:
    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts" / "lint_structure.py"), str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    source = tmp_path / "saeta" / "base" / "a.hpp"
    source.parent.mkdir(parents=True)
    source.write_text("#pragma once\n")
    (tmp_path / "saeta" / "CMakeLists.txt").write_text("")
    assert (run().returncode, run().stdout) == (0, "")
    source.write_text(including("saeta/budget/budget.hpp"))
    assert run().returncode == 1
    assert run().stdout.startswith("saeta/base/a.hpp:2: [layer]")
    kept_out = tmp_path / ".deps" / "b.hpp"
    kept_out.parent.mkdir()
    kept_out.write_text("int f();\n")
    source.write_text("#pragma once\n")
    assert run().returncode == 0
