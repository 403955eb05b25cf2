"""Stores of obstore: objects by keys, behind the interface of `filesystems.FileSystem`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from saeta._files.stores.opened import Opened
from saeta._files.stores.retries import is_transient, reason_of
from saeta._optional import load
from saeta.errors import FileError, InvalidError, MissingDependency

SCHEMES = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https"})
PART = 16 << 20  # bytes of a part of an upload. S3 allows 10,000 parts, which are then 160 GB

# A request that fails is sent again by `requests.Request`, which also sends fewer at once to a busy store.
RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
# A request brings 4 MiB. One that takes longer than this is sent again.
CLIENT = {"timeout": "60s", "connect_timeout": "10s"}

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")

_log = logging.getLogger("saeta")


def is_store(system: Any) -> bool:
    """Whether an object has the methods of a store of obstore that are used here."""
    return all(callable(getattr(system, name, None)) for name in ("head", "get", "list_with_delimiter"))


class OfObstore:
    reads_fronts = True

    def __init__(self, system: Any) -> None:
        self.system = system

    def kind(self, path: str) -> str:
        key = _key(path)
        try:
            self.system.head(key)
            return "file"
        except Exception:  # the attempt to open it reports the error
            pass
        try:
            below = self.system.list_with_delimiter(key)
        except Exception:
            return ""
        return "directory" if below["objects"] or below["common_prefixes"] else ""

    def list_files(self, folder: str, *, deep: bool) -> list[str]:
        prefix = _key(folder) or None
        if not deep:
            return [entry["path"] for entry in self.system.list_with_delimiter(prefix)["objects"]]
        return [entry["path"] for entries in self.system.list(prefix) for entry in entries]

    def open(self, path: str, tail: int) -> Opened:
        key = _key(path)
        try:  # the size comes with the last bytes
            found = self.system.get(key, options={"range": {"suffix": tail}})
            meta, (begin, end), content = found.meta, found.range, found.bytes()
        except Exception as failure:  # not by Azure, and not of an empty object
            if isinstance(failure, FileNotFoundError) or is_transient(failure):
                raise
            meta, begin, end, content = self.system.head(key), 0, 0, b""
        tag = meta.get("e_tag")
        tail_of_file = (begin, content) if begin < end == meta["size"] else None
        return Opened(meta["size"], _Object(self.system, key, tag).read, tag, tail_of_file)

    def read_front(self, path: str, count: int) -> tuple[Any, str | None]:
        try:
            found = self.system.get(_key(path), options={"range": (0, count)})
        except Exception as failure:  # of an empty object. `open` reports others
            if is_transient(failure):
                raise
            return b"", None
        tag = found.meta.get("e_tag")  # before the content, which ends the answer
        return found.bytes(), tag

    def target(self, path: str) -> tuple[str, bool]:
        return _key(path), False

    def create(self, path: str) -> Any:
        return load("obstore", "writing to a store").open_writer(self.system, path, buffer_size=PART)

    def abort(self, file: Any, path: str) -> None:
        failure = InterruptedError("the upload was aborted")
        try:
            file.__exit__(type(failure), failure, None)  # which drops the parts
        except Exception as reason:  # after a failed `close` there is nothing to drop
            _log.info("the upload of %s could not be aborted: %s", path, reason_of(reason))


class _Object(NamedTuple):
    """An object that must stay the same while it is read."""

    store: Any
    key: str
    tag: str | None

    def read(self, offset: int, count: int) -> Any:
        if count == 0:
            return b""
        options: dict[str, Any] = {"range": (offset, offset + count)}
        if self.tag is not None:
            options["if_match"] = self.tag
        try:
            found = self.store.get(self.key, options=options)
        except Exception as failure:
            if type(failure).__name__ != "PreconditionError":
                raise
            raise self._changed() from failure
        if self.tag is not None and found.meta.get("e_tag") not in (None, self.tag):
            raise self._changed()  # the server knows no conditions
        return found.bytes()

    def _changed(self) -> FileError:
        return FileError(
            f"'{self.key}' has changed since it was opened, when its ETag was {self.tag}: read it again"
        )


def store_of(url: str, options: Mapping[str, Any] | None) -> tuple[Any, str] | None:
    """Returns the store of a URL and the path in it.

    None: obstore is not installed, does not take the URL, or does not find the credentials that other
    libraries do.
    """
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    is_azure = scheme in ("abfs", "abfss")
    if scheme not in SCHEMES or "?" in url or ("@" in host and not is_azure):
        return None
    try:
        from_url = load("obstore.store", "a URL").from_url
    except MissingDependency:
        return None
    root = f"{scheme}://{host}"
    if options is not None:
        try:
            return _open(from_url, root, options), path
        except Exception as failure:  # its error for unknown names is neither a ValueError nor a KeyError
            raise InvalidError(f"can't open '{root}' with storage_options: {reason_of(failure)}") from None
    if scheme in ("s3", "s3a") and not _has_keys() and _has_profile():
        try:
            load("boto3", "the profiles of AWS")
        except MissingDependency:
            _log.info("%s is opened by pyarrow, since obstore reads ~/.aws by boto3, which is missing", root)
            return None
        provider = load("obstore.auth.boto3", "the profiles of AWS").Boto3CredentialProvider
        return _open(from_url, root, {"credential_provider": provider()}), path
    return _of_environment(root, _environment(), os.getpid()), path


@lru_cache(maxsize=32)
def _of_environment(root: str, environment: tuple[tuple[str, str], ...], process: int) -> Any:
    """Returns the store that the environment describes. Its connections serve all files of a process."""
    return _open(load("obstore.store", "a URL").from_url, root, {})


def _open(from_url: Callable[..., Any], root: str, options: Mapping[str, Any]) -> Any:
    given = {"retry_config": RETRIES, **options}
    client = {**CLIENT, **given.pop("client_options", {})}
    endpoints = (root, options.get("endpoint"), *map(os.environ.get, ENDPOINTS))
    if any(str(endpoint).startswith("http://") for endpoint in endpoints):
        client.setdefault("allow_http", True)
    return from_url(root, client_options=client, **given)


def _environment() -> tuple[tuple[str, str], ...]:
    prefixes = ("AWS_", "AZURE_", "GOOGLE_")
    return tuple(sorted(pair for pair in os.environ.items() if pair[0].startswith(prefixes)))


def _has_keys() -> bool:
    """Whether the environment names credentials that obstore finds."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    return any(name in os.environ for name in (*names, "AWS_CONTAINER_CREDENTIALS_FULL_URI"))


def _has_profile() -> bool:
    files = (os.environ.get("AWS_SHARED_CREDENTIALS_FILE"), "~/.aws/credentials", "~/.aws/config")
    return "AWS_PROFILE" in os.environ or any(Path(file).expanduser().is_file() for file in files if file)


def _key(path: str) -> str:
    return path.strip("/")
