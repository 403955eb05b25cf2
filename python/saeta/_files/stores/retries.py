"""Which failures of stores are worth another attempt, and when."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from saeta.errors import Error

ATTEMPTS = 8  # of a request
FIRST_PAUSE = 0.1  # seconds, doubled after each attempt
LONGEST_PAUSE = 5.0

THROTTLING = frozenset({429, 503})
TRANSIENT = THROTTLING | {408, 500, 502, 504}

_STATUS = re.compile(r"(?:status|code|http|error)\D{0,20}\b(408|429|500|502|503|504)\b", re.IGNORECASE)
_THROTTLED = re.compile(r"slow.?down|too many requests|throttl|service unavailable|reduce your request", re.I)
_BROKEN = re.compile(
    r"timed? ?out|connection (?:was |has been )?(?:reset|closed|aborted)|reset by peer|broken pipe|"
    r"incomplete|unexpected eof|end of file before|payload is not completed|error decoding response body|"
    r"server disconnected|response body error|error sending request|network_connection|partial file|"
    r"internal ?(?:server )?error|bad gateway",
    re.IGNORECASE,
)


class ShortBody(Exception):  # noqa: N818 - it never leaves the reader of ranges
    """A store returned fewer bytes than requested."""


def status_of(failure: BaseException) -> int | None:
    """Returns the HTTP status that an exception carries, as the libraries of stores carry it."""
    response = getattr(failure, "response", None)
    if isinstance(response, dict):  # botocore
        response = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        response = getattr(response, "status_code", None)
    for number in (getattr(failure, "status", None), getattr(failure, "code", None), response):
        if isinstance(number, int) and 100 <= number < 600:
            return number
    return None


def reason_of(failure: BaseException) -> str:
    """Returns the text of an exception, without the many lines that obstore adds about its source."""
    return str(failure).partition("\n\nDebug source")[0] or type(failure).__name__


def _chain(failure: BaseException | None) -> Iterator[BaseException]:
    for _ in range(5):  # a chain may be a cycle
        if failure is None:
            return
        yield failure
        failure = failure.__cause__ or failure.__context__


def is_throttling(failure: BaseException) -> bool:
    """Whether a store asks for fewer requests."""
    for each in _chain(failure):
        status = status_of(each)
        if status is not None:
            return status in THROTTLING
        text = reason_of(each)
        named = _STATUS.search(text)
        if _THROTTLED.search(text) or (named is not None and int(named[1]) in THROTTLING):
            return True
    return False


def is_transient(failure: BaseException) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(failure, ShortBody):
        return True
    refusals = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, Error)
    for each in _chain(failure):
        if isinstance(each, refusals) or not isinstance(each, Exception):
            return False
        if isinstance(each, ConnectionError | TimeoutError):
            return not isinstance(each, ConnectionRefusedError)
        status = status_of(each)
        if status is not None:
            return status in TRANSIENT
        text = reason_of(each)
        if "connectionrefused" in str(each).lower():
            return False
        if _STATUS.search(text) or _THROTTLED.search(text) or _BROKEN.search(text):
            return True
    return False


def pauses() -> Iterator[float]:
    """Yields the seconds to wait before each further attempt, spread so that requests do not meet again."""
    longest = FIRST_PAUSE
    for _ in range(ATTEMPTS - 1):
        yield longest * (0.5 + random.random() / 2)
        longest = min(2 * longest, LONGEST_PAUSE)
