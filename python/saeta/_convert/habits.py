"""What people try on columns and tables who know pandas or NumPy, and the way to do it here.

Saeta computes nothing: that is the job of the libraries that it hands columns to. Operators, and the names of
methods of other libraries, are refused with what to call. They are not in the stubs, so that type checkers
refuse them as well.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from saeta._core import Column, Table
from saeta.errors import TypeMismatch

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "and": "&",
    "or": "|",
    "xor": "^",
    "matmul": "@",
}
UNARY = {"neg": "-", "pos": "+", "invert": "~", "abs": "abs()", "round": "round()"}
SCALARS = (bool, int, float, complex, str, bytes, date, time, timedelta, Decimal)

PAGE = "the guide 'I want to ...' has examples"
SQL = "duckdb.sql('select ... from table') and polars.DataFrame(table) take the table without a copy"
COMPUTE = (
    "pyarrow.compute and polars take it without a copy, NumPy, CuPy and torch by to_numpy(), to_cupy() and "
    "to_torch()"
)
# Names of other libraries' methods, and what to use.
OF_TABLES = {
    **dict.fromkeys(("groupby", "group_by", "agg", "aggregate", "pivot", "pivot_table"), SQL),
    **dict.fromkeys(("join", "merge", "join_asof", "merge_asof"), SQL),
    **dict.fromkeys(
        ("sort", "sort_by", "sort_values", "order_by", "unique", "drop_duplicates", "describe"), SQL
    ),
    **dict.fromkeys(("query", "where", "apply", "map", "value_counts"), SQL),
    **dict.fromkeys(
        ("assign", "with_column", "with_columns"),
        "append_column adds a column, and set_column replaces one",
    ),
    **dict.fromkeys(("drop", "remove_column"), "drop_columns leaves columns out, by name or number"),
    **dict.fromkeys(("rechunk",), "combine_chunks() joins the batches"),
    **dict.fromkeys(("iloc", "loc"), "table[5:9] and take([...]) select rows, select([...]) columns"),
    **dict.fromkeys(("to_csv", "write_csv"), "pyarrow.csv.write_csv(table.to_arrow(), path) writes CSV"),
    **dict.fromkeys(("to_parquet",), "write_parquet writes Parquet"),
    **dict.fromkeys(("to_json", "write_json", "to_excel", "to_sql", "to_html"), "to_pandas() has it"),
    **dict.fromkeys(
        ("to_feather", "to_ipc", "write_feather"), "write_ipc writes Arrow IPC, which is Feather"
    ),
    **dict.fromkeys(("plot", "hist", "boxplot"), "table.to_pandas().plot() draws it"),
    **dict.fromkeys(("to_dict", "to_dicts"), "to_pydict() and to_pylist() make Python's values"),
    **dict.fromkeys(("collect", "compute", "persist"), "a table has its values already"),
    **dict.fromkeys(
        ("rows", "iterrows", "itertuples", "to_list", "tolist"), "to_pylist() has a dict for each row"
    ),
    **dict.fromkeys(("dtypes", "info"), "schema has the names and types"),
    **dict.fromkeys(("values",), "to_numpy() has the values as a matrix"),
    **dict.fromkeys(("astype",), "cast({'name': type}) converts columns"),
    **dict.fromkeys(("fillna",), "fill_null({'name': value}) fills nulls"),
    **dict.fromkeys(("dropna", "drop_nulls"), "drop_null() drops rows with nulls"),
    **dict.fromkeys(("rename",), "rename_columns renames"),
    **dict.fromkeys(("cuda", "gpu", "cpu"), "to('cuda') and to('host') move it"),
}
OF_COLUMNS = {
    **dict.fromkeys(
        ("sum", "mean", "min", "max", "std", "var", "median", "quantile", "count", "any", "all"), COMPUTE
    ),
    **dict.fromkeys(
        ("unique", "value_counts", "nunique", "sort", "sort_values", "argsort", "map", "apply"), COMPUTE
    ),
    **dict.fromkeys(("str", "dt", "isin", "is_in", "between", "abs", "round", "cumsum"), COMPUTE),
    **dict.fromkeys(("dtype",), "type is its type, and type.dtype the name of NumPy's"),
    **dict.fromkeys(("shape", "size"), "len(column) is the number of rows"),
    **dict.fromkeys(("values", "numpy"), "to_numpy() has the values"),
    **dict.fromkeys(("to_list", "tolist"), "to_pylist() has the values"),
    **dict.fromkeys(("astype",), "cast(type) converts it"),
    **dict.fromkeys(("isna", "isnull"), "is_null() says which rows are null"),
    **dict.fromkeys(("fillna",), "fill_null(value) fills nulls"),
    **dict.fromkeys(("dropna", "drop_nulls"), "drop_null() drops nulls"),
    **dict.fromkeys(("plot", "hist"), "column.to_numpy() is what matplotlib draws"),
    **dict.fromkeys(("cuda", "gpu", "cpu"), "to('cuda') and to('host') move it"),
    **dict.fromkeys(("torch",), "to_torch() is a tensor of it"),
    **dict.fromkeys(("rechunk",), "combine_chunks() joins the chunks"),
    **dict.fromkeys(("rename", "alias"), "with_name(name) renames it"),
}

OF_MODULE = {
    **dict.fromkeys(("read_csv", "scan_csv"), "saeta.table(pyarrow.csv.read_csv(path))"),
    **dict.fromkeys(("read_json", "read_ndjson"), "saeta.table(pyarrow.json.read_json(path))"),
    **dict.fromkeys(("read_orc",), "saeta.table(pyarrow.orc.read_table(path))"),
    **dict.fromkeys(
        ("read_feather", "read_arrow", "read", "open", "load"), "saeta.read_ipc(path), read_parquet(path)"
    ),
    **dict.fromkeys(("read_table",), "saeta.read_parquet(path)"),
    **dict.fromkeys(
        ("DataFrame", "LazyFrame", "from_pandas", "from_polars", "from_dict"), "saeta.table(data)"
    ),
    **dict.fromkeys(("Series", "array", "from_numpy", "from_torch"), "saeta.column(values, name=name)"),
    **dict.fromkeys(("concat", "vstack"), "saeta.concat_tables(tables)"),
    **dict.fromkeys(("write_parquet",), "table.write_parquet(path)"),
    **dict.fromkeys(("DataLoader", "Dataset"), "saeta.loader(paths)"),
    **dict.fromkeys(("set_device", "device", "Stream"), "saeta.context(device)"),
    **dict.fromkeys(("sql", "query"), "duckdb.sql('select ... from table')"),
}


def missing_name(name: str) -> str:
    """Returns the text of the error for a name that the module does not have."""
    way = f": {OF_MODULE[name]} does it" if name in OF_MODULE else ""
    return f"module 'saeta' has no attribute '{name}'{way}"


def install() -> None:
    """Gives Column and Table the operators and attributes that say what to use."""
    for name, sign in COMPARISONS.items():
        _set(f"__{name}__", _refusal(sign, " of rows is a mask, which filter takes: make it with {}"))
    for name, sign in BINARY.items():
        for method in (f"__{name}__", f"__r{name}__"):
            _set(method, _refusal(sign, " is left to other libraries: compute with {}"))
    for name, sign in UNARY.items():
        _set(f"__{name}__", _refusal(sign, " is left to other libraries: compute with {}"))
    equal = Column.__eq__

    def compare(self: Column, other: Any) -> Any:
        if isinstance(other, SCALARS) or (hasattr(other, "__array__") and not isinstance(other, Column)):
            _refuse(self, "==", " with values makes a mask, which filter takes: make it with {}")
        return equal(self, other)

    _set("__eq__", compare, Column)
    for kind, ways in ((Table, OF_TABLES), (Column, OF_COLUMNS)):
        _set("__getattr__", _attribute(ways), kind)


def _set(method: str, function: Callable[..., Any], *kinds: type) -> None:
    for kind in kinds or (Column, Table):
        setattr(kind, method, function)


def _refusal(sign: str, advice: str) -> Callable[..., Any]:
    def refuse(self: Column | Table, *_: Any) -> Any:
        _refuse(self, sign, advice)

    return refuse


def _refuse(self: Column | Table, sign: str, advice: str) -> None:
    if isinstance(self, Table):
        raise TypeMismatch(f"{sign} of a table{advice.format('its columns: ' + SQL)}; {PAGE}")
    values = "column.to_numpy()" if self.device == "host" else "column.to_torch() or column.to_cupy()"
    ways = f"{values}, torch, CuPy, pyarrow.compute or DuckDB"
    raise TypeMismatch(f"column '{self.name}': {sign}{advice.format(ways)}; {PAGE}")


def _attribute(ways: dict[str, str]) -> Callable[[Any, str], Any]:
    def find(self: Column | Table, name: str) -> Any:
        if hasattr(type(self), name):  # a property that has raised the error: raise it again
            return object.__getattribute__(self, name)
        kind = type(self).__name__
        text = f"'{kind}' object has no attribute '{name}'"
        if name in ways:
            text += f": {ways[name]}; {PAGE}"
        elif not name.startswith("_") and isinstance(self, Table) and name in self.column_names:
            text += f": table['{name}'] is the column"
        raise AttributeError(text, name=name, obj=self)

    return find
