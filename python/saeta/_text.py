"""Text that other people chose, such as names of columns and of files, on its way to a person."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line, with Python's escapes for all that a terminal would act on or a reader would not see: control characters,
    line ends, marks that turn the direction of writing, surrogates. saeta/base/printable.hpp does it for C++."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shortened(text: str, width: int) -> str:
    """At most `width` characters of the text."""
    return text if len(text) <= width else text[: width - 1] + "…"


def shown(text: str, width: int) -> str:
    """`printable`, and at most `width` characters of it: takes no more time for a text of any length."""
    return shortened(printable(text[: width + 1]), width)


def number_text(value: object) -> str:
    """The repr of a value that should be a number; Python refuses to write one of thousands of digits."""
    large = isinstance(value, int) and value.bit_length() > 128
    return f"a number of {value.bit_length():,} bits" if large else repr(value)  # type: ignore[attr-defined]
