"""How a Parquet file is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from saeta._parquet.engine import Engine


class Options(NamedTuple):
    """How values are encoded, in the words of pyarrow."""

    row_group_size: int | None
    compression: str
    compression_level: int | None
    use_dictionary: bool | list[str]
    engine: Engine | None = None
