"""Every code block in README and docs is run by a test, or a marker says why it is not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from code_blocks import BLOCKS, ROOT, Block, compile_command

# The tests that run the blocks of one page and language. Other tests run the Python blocks of all pages.
RUN_BY = {
    ("README.md", "console"): "tests/python/test_readme.py",
    ("README.md", "cpp"): "tests/consumer/run.cmake",
    **{
        (page.relative_to(ROOT).as_posix(), "cpp"): "tests/consumer/run.cmake"
        for page in sorted(ROOT.glob("docs/guides/cpp*.md"))
    },
    ("docs/guides/c.md", "c"): "tests/python/test_c_page.py",
    ("docs/guides/c.md", "rust"): "tests/python/test_c_page.py",
    ("docs/guides/reading.md", "console"): "tests/python/test_guides.py",
    ("docs/guides/slow.md", "console"): "tests/python/test_profile_read.py",
    ("docs/reference/cli.md", "console"): "tests/python/test_reference_tables.py",
    ("docs/scale.md", "console"): "tests/lint/test_scale.py",
}
# Pages with C++ blocks: a source whose compile options the block gets, and the code before and after the
# block.
COMPILED = {
    "docs/guides/kernels.md": ("kernels/take.cu", "", ""),
    "docs/guides/memory.md": (
        "saeta_rmm_tests.dir",
        "void use(const std::shared_ptr<saeta::context>& ctx, rmm::mr::cuda_async_memory_resource& pool) {",
        "}",
    ),
    "docs/guides/rapidsmpf.md": (
        "saeta_rapidsmpf_tests.dir",
        "void use(const std::shared_ptr<saeta::context>& ctx, const saeta::table& part) {",
        "}",
    ),
    "docs/ordering.md": (
        "saeta_memory.dir",
        """#include "saeta/memory/use_token.hpp"
        using namespace saeta;
        void scale(stream_ref stream, std::span<const float> in, std::span<float> out);
        void use(stream_ref stream, const buffer& in, const buffer& out) {""",
        "}",
    ),
}


def described(block: Block) -> str:
    return f"{block.page}, {block.language}: {block.text[:40]!r}"


def test_every_block_is_run_or_marked() -> None:
    left = [
        described(block)
        for block in BLOCKS
        if not block.not_run
        and block.language not in ("python", "text")
        and (block.page, block.language) not in RUN_BY
        and not (block.language == "cpp" and block.page in COMPILED)
    ]
    assert left == []


def test_the_tests_that_run_blocks_exist_and_have_blocks_to_run() -> None:
    assert [path for path in RUN_BY.values() if not (ROOT / path).exists()] == []
    there = {(block.page, block.language) for block in BLOCKS}
    assert {*RUN_BY, *((page, "cpp") for page in COMPILED)} <= there


def test_every_python_block_compiles() -> None:
    for block in BLOCKS:
        if block.language == "python":
            compile(block.text, block.page, "exec")


def test_python_blocks_can_be_pasted_into_an_interpreter() -> None:
    """In an interactive interpreter, an empty line ends a compound statement."""
    cut = [
        described(block)
        for block in BLOCKS
        if block.language == "python" and re.search(r"\n\s*\n[ \t]", block.text)
    ]
    assert cut == []


def test_commands_name_targets_and_scripts_that_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for block in BLOCKS:
        if block.language == "console":
            for line in block.text.splitlines():
                words = line.removeprefix("$ ").split()
                if words and words[0] == "make":
                    assert words[1] in targets, line
                elif words and words[0].startswith(("scripts/", ".ci/")):
                    assert (ROOT / words[0]).is_file(), line


@pytest.mark.parametrize("page", COMPILED)
def test_a_block_of_cpp_compiles(page: str, tmp_path: Path) -> None:
    like, before, after = COMPILED[page]
    blocks = [each for each in BLOCKS if (each.page, each.language) == (page, "cpp") and not each.not_run]
    for number, block in enumerate(blocks):
        lines = block.text.splitlines()
        includes = [line for line in lines if line.startswith("#include")]
        rest = [line for line in lines if line not in includes]
        source = tmp_path / f"block_{number}{'.cu' if like.endswith('.cu') else '.cpp'}"
        source.write_text("\n".join([*includes, before, *rest, after, ""]), encoding="utf-8")
        command, folder = compile_command(like, source)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
