"""The site's search ranks the right page first for common tasks.

The tests query the index of the built site as its search worker does
(material/templates/assets/javascripts/workers): the same fields and boosts, a wildcard after each term, more
weight for pages than for sections and for results with all terms, and results grouped by page.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from lunr.builder import Builder
from lunr.stop_word_filter import stop_word_filter
from test_reference_pages import MODULES, exported, stub_methods

TASKS = {
    "tensors with nulls": "guides/nulls.html",
    "nulls to torch": "guides/nulls.html",
    "nan mask fill null": "guides/nulls.html",
    "share budget torch cupy": "guides/one-budget.html",
    "cudf rmm budget": "guides/one-budget.html",
    "memory leak": "guides/leaks.html",
    "timeline": "guides/leaks.html",
    "own kernel": "guides/kernels.html",
    "cupy rawkernel": "guides/kernels.html",
    "triton": "guides/kernels.html",
    "numba": "guides/numba.html",
    "s3": "guides/stores.html",
    "credentials": "guides/stores.html",
    "several gpus": "guides/several-gpus.html",
    "multi gpu": "guides/several-gpus.html",
    "multiple gpus": "guides/several-gpus.html",
    "many small files": "guides/many-files.html",
    "socket": "guides/sockets.html",
    "tcp": "guides/sockets.html",
    "stream from a pipe": "guides/sockets.html",
    "what does an error mean": "guides/errors.html",
    "BudgetExceeded": "guides/errors.html",
    "DeviceLost": "guides/errors.html",
    "move from rmm": "coming-from-rmm.html",
    "rapidsmpf": "guides/rapidsmpf.html",
    "pyarrow.cuda": "coming-from-pyarrow-cuda.html",
    "coming from xlog": "coming-from-xlog.html",
    "move from xlog": "coming-from-xlog.html",
    "xlog": "coming-from-xlog.html",
    "install": "install.html",
    "gdb": "install.html",
    "tutorial": "tutorial.html",
    "train a model": "tutorial.html",
    "training loader": "guides/training.html",
    "shuffle rows": "guides/training.html",
    "environment variables": "options.html",
    "exit codes": "errors.html",
    "read arrow file": "guides/reading.html",
    "parquet": "guides/parquet.html",
    "limit memory": "guides/memory.html",
    "pytorch": "guides/torch.html",
    "torch.distributed": "guides/torch-distributed.html",
    "nccl collectives": "guides/torch-distributed.html",
    "which engine": "guides/engines.html",
    "many workers scale": "scale.html",
    "lazyframe source": "guides/polars.html",
    "jax": "guides/jax.html",
    "polars": "guides/polars.html",
    "duckdb": "guides/duckdb.html",
    "ray direct transport": "guides/ray.html",
    "ray object store": "guides/ray.html",
    "dask": "guides/dask.html",
    "fork multiprocessing": "processes.html",
    "supported types": "reference/types.html",
    "zero copy": "exchange.html",
    "command line": "reference/cli.html",
    "read_ipc": "reference/python/files.html",
    "to_torch": "reference/python/columns-conversions.html",
    "scan_ipc": "reference/python/files.html",
    "from_dlpack": "reference/python/exchange.html",
    "concat_tables": "reference/python/tables.html",
    "assert_no_leaks": "reference/python/testing.html",
    "use_token.hpp": "reference/cpp/memory.html",
    "benchmarks": "benchmarks.html",
    "bottleneck": "guides/slow.html",
    "profile_read": "reference/python/files-profiles.html",
    "cuda graph capture": "captures.html",
}
# What strangers type who do not know our words yet.
STRANGERS = {
    "jupyter": "guides/i-want-to.html",
    "notebook": "guides/i-want-to.html",
    "read_csv": "guides/i-want-to.html",
    "csv": "guides/i-want-to.html",
    "json": "guides/i-want-to.html",
    "excel": "guides/i-want-to.html",
    "orc": "guides/i-want-to.html",
    "join": "guides/i-want-to.html",
    "groupby": "guides/i-want-to.html",
    "group by": "guides/i-want-to.html",
    "sort": "guides/i-want-to.html",
    "unique": "guides/i-want-to.html",
    "plot": "guides/i-want-to.html",
    "matplotlib": "guides/i-want-to.html",
    "seaborn": "guides/i-want-to.html",
    "scikit-learn": "guides/i-want-to.html",
    "write parquet": "guides/parquet.html",
    "read parquet": "guides/parquet.html",
    "aws": "guides/stores.html",
    "parquet filter": "guides/parquet.html",
    "gcs": "guides/stores.html",
    "azure": "guides/stores.html",
    "minio": "guides/stores.html",
    "bucket": "guides/stores.html",
    "out of memory": "guides/errors.html",
    "budget": "guides/memory.html",
    "oom": "guides/errors.html",
    "slow": "guides/slow.html",
    "performance": "guides/slow.html",
    "spill": "guides/spilling.html",
    "larger than memory": "guides/spilling.html",
    "pandas": "guides/pandas.html",
    "dataframe": "guides/pandas.html",
    "numpy": "guides/numpy.html",
    "cupy": "guides/cupy.html",
    "cudf": "guides/cudf.html",
    "dlpack": "guides/tensors.html",
    "dataloader": "guides/training.html",
    "resume training": "guides/training.html",
    "epoch": "guides/training.html",
    "s3 bucket": "guides/stores.html",
    "rechunk": "reference/words.html",
    "with_columns": "reference/words.html",
    "progress bar": "guides/reading.html",
    "tqdm": "guides/reading.html",
    "compression": "guides/reading.html",
    "lz4": "guides/reading.html",
    "feather": "guides/reading.html",
    "pip install": "install.html",
    "wheel": "install.html",
    "quick start": "quickstart.html",
    "without a gpu": "quickstart.html",
    "multiprocessing": "guides/sharing.html",
    "share memory between processes": "guides/sharing.html",
    "null": "guides/nulls.html",
    "nan": "guides/nulls.html",
    "strings": "guides/tensors.html",
    "sql": "guides/duckdb.html",
    "contribute": "contributing.html",
    "convert csv": "reference/cli.html",
    "inspect": "reference/cli.html",
}


@dataclass
class Search:
    """The search of the site."""

    index: Any
    separator: re.Pattern[str]

    def pages(self, query: str) -> list[str]:
        """Returns the matching pages, the best first."""
        terms = [term for term in self.separator.split(query.lower()) if term]
        scored: list[tuple[float, str]] = []
        for found in self.index.search(" ".join(f"{term}*" for term in terms)):
            matched = list(found["match_data"].metadata)
            hits = {term: any(word.startswith(term) for word in matched) for term in terms}
            known = [hit for term, hit in hits.items() if hit or stop_word_filter(term)]
            boost = ("#" not in found["ref"]) + sum(known) / len(known)
            scored.append((found["score"] * (1 + boost**2), found["ref"]))
        scored.sort(key=lambda each: -each[0])
        return list(dict.fromkeys(ref.partition("#")[0] for _, ref in scored))


def plain(text: str) -> str:
    """Returns the text without HTML tags."""
    return unescape(re.sub(r"<[^>]*>", " ", text))


@pytest.fixture(scope="session")
def search(site: Path) -> Search:
    content = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    config = content["config"]
    separator = re.compile(config["separator"])
    assert config["pipeline"] == ["stopWordFilter"]
    builder = Builder()
    builder.pipeline.add(stop_word_filter)
    builder.ref("location")
    builder.b(0)
    for name, spec in config["fields"].items():
        builder.field(name, spec["boost"])
    for each in content["docs"]:
        words = {field: separator.split(plain(each[field])) for field in ("title", "text")}
        builder.add(
            {"location": each["location"], "tags": each.get("tags"), **words}, {"boost": each.get("boost", 1)}
        )
    return Search(builder.build(), separator)


def test_the_tasks_are_enough_and_their_pages_exist(site):
    assert len(TASKS) >= 40
    assert [page for page in TASKS.values() if not (site / page).is_file()] == []


def test_a_public_name_leads_to_its_signature(search, inventory):
    """Searching for a public name finds its reference page among the first hits. A member includes its
    class."""
    exports = [f"{module}.{name}" for module, file in MODULES.items() for name in exported(file)]
    names = [name for name in (*exports, *stub_methods()) if name in inventory]
    assert len(names) > 290
    hidden = []
    for name in names:
        query = ".".join(name.split(".")[-2:]) if name.count(".") > 1 else name.rpartition(".")[2]
        if inventory[name] not in search.pages(query)[:8]:
            hidden.append(query)
    assert hidden == []


@pytest.mark.parametrize("query", TASKS)
def test_the_first_hit_for_a_task_is_its_page(search, query):
    assert search.pages(query)[:1] == [TASKS[query]], search.pages(query)[:5]


def test_strangers_find_the_page_among_the_first_three(search, site):
    assert len(STRANGERS) >= 60
    assert [page for page in STRANGERS.values() if not (site / page).is_file()] == []
    found = {query: search.pages(query)[:3] for query in STRANGERS}
    assert {query: pages for query, pages in found.items() if STRANGERS[query] not in pages} == {}
