"""Hooks of mkdocs (used in mkdocs.yml): the front page begins with the README's first part, the page about
contributing is CONTRIBUTING.md, the pages of the C++ reference are generated from the headers, SVG figures
are inlined into the pages, and the header of each page has the version.

A page of docs/reference/cpp has the line `<!-- headers of saeta/memory -->`, which becomes a section for each
public header of that layer: the comment at its top, with its example as a block of code, then its
declarations without private members, `detail` namespaces and includes. The declarations open at a click, so
that a page can be looked through.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import build_metadata
import lint_structure

ROOT = Path(__file__).resolve().parent.parent
BEGINNING = "<!-- the beginning of README.md -->"
CONTRIBUTING = "<!-- the text of CONTRIBUTING.md -->"
# Links to files that the site does not have.
OUTSIDE = re.compile(r"\[([^\]]*)\]\((?!https?:|docs/|#)[^)]*\)")
MARK = re.compile(r"^<!-- headers of (\S+) -->$", re.MULTILINE)
LABEL = re.compile(r"^([A-Z]\w+)  +(?=\S)")
ITEM = re.compile(r" *(\d\.|-|\*) ")
EXAMPLE = re.compile(r"^// @code\n(.*?)^// @endcode\n", re.DOTALL | re.MULTILINE)
# These rely on clang-format: the closing brace has the indent of the opening line.
PRIVATE = re.compile(r"^( *)(?:private|protected):\n.*?(?=^\1\};)", re.DOTALL | re.MULTILINE)
DETAIL = re.compile(r"^namespace detail \{\n.*?^\} // namespace detail\n", re.DOTALL | re.MULTILINE)
DIAGRAM = re.compile(r'<img alt="([^"]*)" src="[^"]*figures/([\w-]+)\.svg" ?/?>')
WIDTH = re.compile(r'<svg [^>]*?width="([\d.]+)"')
PHONE = 480  # pixels; a phone shows it at three quarters of its size
HEADER_NAME = re.compile(r'(<div class="md-header__topic">\s*<span class="md-ellipsis">[^<]*)(</span>)')
STYLE = re.compile(r"<style>svg\{color:.*?</style>\n")
LEFT_OUT = re.compile(r"^#(?:include|pragma once).*\n", re.MULTILINE)
DECLARED = re.compile(r"^(?:class|struct|enum class|using|concept) (\w+)", re.MULTILINE)
FUNCTION = re.compile(r"^(?:\[\[nodiscard\]\] )?[\w:<>,*& ]*?[ *&](\w+)\(", re.MULTILINE)

# Search ranks guides before design decisions and headers. For the name of an error, a guide comes first. For
# a name that the package and saeta.dask have, the page of the package comes first; for XLOG, its guide.
SEARCH_BOOSTS = {
    "decisions/": 0.1,
    "contributing.md": 0.1,
    "reference/cpp/": 0.1,
    "benchmarks.md": 0.5,
    "benchmarks-engines.md": 0.3,
    "benchmark-programs.md": 0.5,
    "guides/memory.md": 1.3,
    "guides/parquet.md": 2,
    "guides/reading.md": 2,
    "guides/i-want-to.md": 1.5,
    "reference/python/": 1.35,
    "reference/python/arguments.md": 0.2,
    "reference/python/errors.md": 0.5,
    "reference/python/dask.md": 0.5,
    "reference/python/ray.md": 0.5,
    "reference/python/xlog.md": 0.5,
}


def public_headers(layer: str, root: Path = ROOT) -> list[Path]:
    """Returns the headers that a layer installs, by name; all headers if saeta/CMakeLists.txt lists none."""
    listed = sorted(name for name in lint_structure.public_headers(root) if name.startswith(f"{layer}/"))
    return [root / name for name in listed] or sorted((root / layer).glob("*.hpp"))


def documented_layers(root: Path = ROOT) -> set[str]:
    """Returns the layers that have a page in the C++ reference."""
    pages = (root / "docs/reference/cpp").glob("*.md")
    return {layer for page in pages for layer in MARK.findall(page.read_text(encoding="utf-8"))}


def page_text(comment: str) -> str:
    """Converts the comment at the top of a header to Markdown, its examples to blocks of code."""
    parts = EXAMPLE.split(comment)
    parts[::2] = [prose(part) for part in parts[::2]]
    parts[1::2] = [f"```cpp\n{re.sub('^// ?', '', part, flags=re.MULTILINE)}```" for part in parts[1::2]]
    return "\n\n".join(filter(None, parts))


def prose(comment: str) -> str:
    """Converts the text of such a comment, without examples; its labels (`Owner     A value`) become bold."""
    text = ""
    for line in comment.splitlines():
        words = line.removeprefix("//").removeprefix(" ")
        label = LABEL.match(words)
        if label:
            text += f"\n\n**{label[1]}.** "
            words = words[label.end() :]
        if ITEM.match(words):
            text += "\n\n"
        text += words.strip() + "\n"
    outside = re.split(r"(`[^`]*`)", text)
    outside[::2] = [
        part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_") for part in outside[::2]
    ]
    outside[::2] = [part.replace("\\*\\*", "**") for part in outside[::2]]
    return "".join(outside).strip()


def section(header: Path, root: Path = ROOT) -> str:
    """Returns the section about one header."""
    text = header.read_text(encoding="utf-8")
    comment = re.match(r"(?://.*\n)*", text)
    assert comment is not None
    declared = LEFT_OUT.sub("", DETAIL.sub("", PRIVATE.sub("", text[comment.end() :])))
    declared = re.sub(r"\n{3,}", "\n\n", declared).strip()
    names = dict.fromkeys([*DECLARED.findall(declared), *FUNCTION.findall(declared)])
    index = "Declares " + ", ".join(f"`{name}`" for name in names) + ".\n\n" if names else ""
    path = header.relative_to(root).as_posix()
    code = f'#include "{path}"\n\n{declared}'
    block = indent(f"```cpp\n{code}\n```", "    ")
    heading = f"## {path.removeprefix('saeta/')}\n\n{page_text(comment[0])}"
    return f'{heading}\n\n{index}??? note "Declarations"\n\n{block}\n'


def beginning_of_readme(root: Path = ROOT) -> str:
    """Returns the README up to its tour, without the title and with links relative to docs/."""
    text = (root / "README.md").read_text(encoding="utf-8")
    return text.partition("\n")[2].partition("## Five minutes")[0].replace("](docs/", "](").strip()


def text_of_contributing(root: Path = ROOT) -> str:
    """Returns CONTRIBUTING.md without the title, with links relative to docs/."""
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n")[2]
    return OUTSIDE.sub(r"\1", text).replace("](docs/", "](").strip()


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for the Markdown of each page: inserts the README and the sections of headers."""
    for beginning, boost in SEARCH_BOOSTS.items():
        if page.file.src_uri.startswith(beginning):
            page.meta["search"] = {"boost": boost}
    if BEGINNING in markdown:
        markdown = markdown.replace(BEGINNING, beginning_of_readme())
    if CONTRIBUTING in markdown:
        markdown = markdown.replace(CONTRIBUTING, text_of_contributing())
    return MARK.sub(lambda mark: "\n".join(map(section, public_headers(mark[1]))), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs for the HTML of each page: inlines diagrams, which then have the text's colour."""
    return DIAGRAM.sub(inlined, html)


def on_post_page(output: str, **_: Any) -> str:
    """Called by mkdocs for each whole page: puts the version behind the name in the header."""
    version = f'<span class="release">{build_metadata.version()}</span>'
    return HEADER_NAME.sub(lambda name: f"{name[1]}{version}{name[2]}", output, count=1)


def inlined(image: re.Match[str], root: Path = ROOT) -> str:
    """Returns the SVG text of a figure in the colour of the text for its image tag. Others are unchanged."""
    picture, own_colours = STYLE.subn("", (root / f"docs/figures/{image[2]}.svg").read_text(encoding="utf-8"))
    if own_colours == 0:
        return image[0]
    drawn = WIDTH.search(picture)
    kind = "figure wide" if drawn and float(drawn[1]) > PHONE else "figure"
    return f'<span class="{kind}" data-search-exclude aria-label="{image[1]}">{picture}</span>'
