"""Makes text from outside, such as names of columns and files, safe to show to a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def printable(text: str) -> str:
    """Returns the text on one line, with Python's escapes for characters that are not printable.

    These are control characters, line ends, marks that turn the direction of writing, and surrogates.
    saeta/base/text.hpp does the same for C++.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shorten(text: str, width: int) -> str:
    """Returns at most `width` characters of the text."""
    return text if len(text) <= width else text[: width - 1] + "…"


def shorten_printable(text: str, width: int) -> str:
    """Returns at most `width` characters of `printable`.

    The time does not depend on the length of the text.
    """
    return shorten(printable(text[: width + 1]), width)


def number_text(value: object) -> str:
    """Returns the repr of a value that should be a number. Python refuses to format thousands of digits."""
    large = isinstance(value, int) and value.bit_length() > 128
    return f"a number of {value.bit_length():,} bits" if large else repr(value)  # type: ignore[attr-defined]


def did_you_mean(given: object, known: Iterable[str], meant: Mapping[str, str] | None = None) -> str:
    """Returns the end of an error about an unknown word: the closest known one, "" if none is close.

    Args:
        given: the word, or any other object.
        known: the words there are.
        meant: for words of other libraries, those of ours.
    """
    if not isinstance(given, str):
        return ""
    from saeta import _core

    others = dict(meant or {})
    found = _core._closest(given, [*known, *others])
    return f"; did you mean '{others.get(found, found)}'?" if found else ""
