"""Reads and writes Arrow IPC files and streams.

The compiled module `saeta._ipc` does the work. No other package is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from saeta import _ipc
from saeta._core import Table
from saeta._files import sinks
from saeta._files.data_sets import IPC_ENDINGS, list_sources
from saeta._files.filesystems import place_of
from saeta._files.progress import hook as progress_hook
from saeta._files.readers import ReadArguments, describe_source, open_reader
from saeta._files.sources import resolve_source
from saeta.exchange import ArrowStream, ContextLike, context_of, table_in_place

if TYPE_CHECKING:
    from saeta._files.batch_numbers import BatchNumbers
    from saeta._files.progress import ProgressArgument
    from saeta._files.sinks import Compression, Format, Target
    from saeta._files.sources import Source, Sources


def read_ipc(
    source: Sources,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    batches: BatchNumbers = None,
    schema: Any = None,
    index: bool = False,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    combine_chunks: bool | None = None,
    progress: ProgressArgument = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Table:
    """Reads Arrow IPC files or streams into a table of a context.

    Args:
        source: a path, bytes, a URL ("s3://..."), or an object whose `read()` returns bytes. Files of
            pyarrow.fs and of fsspec and seekable objects are read by ranges, large ones several at a time. An
            object that can't seek (a pipe, a socket's `makefile("rb")`, `sys.stdin.buffer`) and a path that
            names a pipe (`/dev/stdin`) are read up to the end of the Arrow stream; bytes behind it stay
            unread. The file format needs all bytes of such an object. To read several sources with the same
            columns one after the other, pass a list of such sources, a glob ("data/*.arrow", "**" for any
            folders), or a folder. Of a folder, all files that end in .arrow, .arrows, .feather or .ipc are
            read, also in folders below, sorted by path, except names that begin with "." or "_".
        ctx: a Context or the name of its device. None: the best device.
        columns: only these, in this order; one name or several.
        batches: only these: the number of one, a list of numbers in any order, or a range, slice or tuple of
            two numbers [first, last). Batches are numbered through all sources.
        schema: of the table: a Schema, a schema of pyarrow, or another object with `__arrow_c_schema__`. Each
            source must have these names and types in this order, without nulls where the schema allows none.
            None: the common schema of all sources, in which a column allows nulls if it does in one of them.
            Only `columns` are compared. A column of type null matches any type, and its rows become nulls.
            The names of list and map values are not compared.
        index: whether to read columns that hold an index of pandas, according to the metadata of a source.
            Columns that `columns` or `schema` names are always read.
        copy: on the host, None views the mapped file where possible, and True copies into memory of the
            context, under its budget. A file that is truncated while it is copied is a FileError; reading a
            view of a truncated file ends the process (SIGBUS).
        validate: True checks every offset and dictionary index before it is used. False checks sizes only,
            for files that you trust. "utf8" also checks strings and string views: one that is not UTF-8 is a
            FormatError with its batch, column and row.
        combine_chunks: True joins the batches, so that each column has one chunk. A column has more chunks,
            but as few as possible, where 32-bit offsets could not count its bytes or a stream replaces a
            dictionary.
            False keeps the batches of the file. None joins on a device and keeps the batches on the host,
            where they can be views.
        progress: True shows a progress bar, of rich or else tqdm; "rich" and "tqdm" choose one. A callable is
            called with a Progress from time to time: at least at the end and, where batches are read one by
            one, after each batch.
        filesystem: a file system of pyarrow.fs or of fsspec, or a store of obstore; `source` is then a path
            in it.
        storage_options: what opens the store of a URL, as keywords of obstore where that is installed and
            knows the scheme ("s3", "gs", "az", "abfs", "http"), else of fsspec.

    On a device, and wherever batches are joined, copied or compressed, a source is read as a whole. That
    takes one allocation for the table, one transfer that streams through the staging ring, and at most one
    additional chunk of memory per thread. Each compressed buffer is decoded by one thread; all threads of the
    ring decode in parallel. Files with metadata older than version 5 are read batch by batch. Joining their
    batches needs the memory of the batches and of the table for a moment.

    Raises:
        FileError: the source can't be read (MissingFileError if it does not exist, or no file matches).
        TypeMismatch: a source has another schema; names the source and the column.
        OutOfRange: a batch does not exist.
        FormatError: the bytes are not Arrow, are truncated or are hostile. Parquet and other formats are
            recognised by their first bytes and named.
        UnsupportedError: names the column and its type.
        BudgetExceeded: the table does not fit. After any failed read, nothing of it stays allocated.

    Example:
        >>> import saeta as sa, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> for name, values in (("a", [1, 2]), ("b", [3])):
        ...     _ = sa.table({"n": values}, "host").write_ipc(os.path.join(folder, name + ".arrow"))
        >>> sa.read_ipc(folder, "host")["n"].to_pylist()
        [1, 2, 3]
        >>> sa.read_ipc(os.path.join(folder, "*.arrow"), "host", batches=[1, 0])["n"].to_pylist()
        [3, 1, 2]
    """
    target = context_of(ctx)
    place = filesystem if storage_options is None else place_of(filesystem, storage_options)
    files = list_sources(source, place, IPC_ENDINGS)
    reader = open_reader(
        files, ReadArguments(columns, batches, schema, index, copy, validate, combine_chunks)
    )
    if progress is None:
        return reader.read_all(target)
    with progress_hook(progress, "reading") as hook:
        return reader.read_all(target, hook)


def write_ipc(
    source: ArrowStream,
    path: Target,
    *,
    compression: Compression | None = None,
    compression_level: int | None = None,
    batch_size: int | None = None,
    format: Format | None = None,  # noqa: A002 - the word that pyarrow and pandas use
    index: bool = False,
    progress: ProgressArgument = None,
    durable: bool = True,
    replace_read_only: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> int:
    """Writes a table as an Arrow IPC file and returns its size in bytes.

    A file on this machine appears under its name when everything is written. A failure, Ctrl-C or the end of
    the process leaves the previous file as it was and no temporary file. The new file takes over the
    permissions of the file that it replaces, and its owner where the system allows that. For a symbolic link,
    the file that it names is replaced.

    A plain file has the batches of the table, which readers view or read in parts. A batch of a compressed
    file or of a stream is mostly read as a whole. So larger batches are cut there into parts with about 4 MiB
    of values, and a reader needs little memory. A device table is downloaded in windows of 64 MiB, each with
    several batches or a part of one. Several threads write a window while the next one is downloaded. Windows
    and compressed bytes are charged to the host's budget; for a compressed batch that is its whole body.

    Other targets get the bytes in order, each window before the next one is downloaded. Writing to them is
    not atomic:

    - An object with `write()` keeps the bytes that were written before a failure. It is flushed, and neither
      closed nor moved.
    - A URL, or a path with `filesystem=`, is opened for the first bytes and closed after the last. After a
      failure, a multipart upload of fsspec (S3, Google Cloud) is aborted, and the previous file stays. On
      other file systems the partial file is removed, and the file that it replaced is lost.

    Args:
        source: a Table of any context, or an object with the Arrow C stream, array or device interface, such
            as a table of pyarrow or polars, which is taken where its memory is.
        path: a path, a URL ("s3://...", "memory://..."), or an object whose `write()` takes bytes: a file
            that is open in binary mode, BytesIO, a file of a socket, of gzip, of pyarrow or of fsspec. If
            `write()` takes only a part of the bytes, it is called again with the rest.
        compression: of batch bodies: None, "lz4" or "zstd".
        compression_level: of "lz4" (1 to 12) or "zstd" (1 to 22). Higher levels make smaller files and take
            several times as long. None: 1.
        batch_size: the maximum number of rows of a batch: larger batches of the table are cut. None: batches
            as the table has them, cut by their bytes in compressed files and streams.
        format: "file", or "stream" for the streaming format. None: "stream" for a path or URL that ends in
            .arrows, else "file".
        index: whether the index of a DataFrame of pandas or cuDF becomes columns, as for `saeta.from_arrow`.
        progress: as for `read_ipc`.
        durable: for a file on this machine. True waits until the file and its name are on the disk, so that
            they survive a crash of the system. False returns when the system has the file: it survives the
            process, but a crash soon after may leave it empty or broken.
        replace_read_only: also replaces a file on this machine that is read-only; otherwise that is a
            FileError.
        filesystem: a file system of pyarrow.fs or of fsspec, or a store of obstore; `path` is then a path in
            it. A local file system, like a "file://" URL, is written to as a plain path is.
        storage_options: as for `read_ipc`.

    Raises:
        FileError: the target can't be written (MissingFileError if its folder does not exist). An exception
            of an object or a file system is its cause. One failure comes when the new file is in place: with
            `durable=True` its folder could not be synced, which the message says.
        TypeMismatch: the source is not a table, or the object takes text; nothing is written.
        UnsupportedError: one file can't hold the dictionaries.
        BudgetExceeded: the host's budget has no room.

    Example:
        >>> import io
        >>> import saeta as sa
        >>> target = io.BytesIO()
        >>> size = sa.write_ipc(sa.table({"a": [1, 2]}, "host"), target, format="stream")
        >>> size == len(target.getvalue())
        True
    """
    table = table_in_place("source", source, index)
    target = sinks.resolve_target(path, place_of(filesystem, storage_options))
    options = sinks.encoding(target, compression, format, compression_level, batch_size)
    with progress_hook(progress, "writing") as hook:
        written: int
        if isinstance(target, sinks.Sink | sinks.Upload):
            with sinks.writing(target) as put:
                written = _ipc.write_sink(table, put, target.name, *options, hook)
        else:
            written = _ipc.write_file(table, target, *options, hook, durable, replace_read_only)
        return written


def to_ipc_bytes(
    self: Table,
    *,
    compression: Compression | None = None,
    compression_level: int | None = None,
    batch_size: int | None = None,
    format: Format = "file",  # noqa: A002
) -> bytes:
    """Implements `Table.to_ipc_bytes`."""
    options = sinks.encoding(None, compression, format, compression_level, batch_size)
    content: bytes = _ipc.write_bytes(self, *options)
    return content


def inspect(
    source: Source, *, filesystem: Any = None, storage_options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Describes a file or stream without loading it.

    Args:
        source, filesystem, storage_options: as for `read_ipc`. Bodies are not read. For a stream that is
            still being sent, bodies are read and dropped, up to its end.

    Returns:
        A dict with format, bytes, compression, rows of each batch and metadata, and for each column its name,
        type, nulls, number of dictionary values and whether a context can hold it.
    """
    return describe_source(resolve_source(source, place_of(filesystem, storage_options)))
