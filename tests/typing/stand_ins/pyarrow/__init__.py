from __future__ import annotations


class ChunkedArray:
    pass


class Table:
    @property
    def columns(self) -> list[ChunkedArray]: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def table(data: object) -> Table: ...
