"""An extension of griffe, the tool that collects docstrings for the Python reference (used in mkdocs.yml).

In stubs overloads have no implementation, and griffe documents only implementations. This extension turns the
first overload that has a docstring into the documented function; the signatures of the others are shown above
it. It also replaces `Example:` by `Examples:`, the section name of the Google style.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)


class PublicDocstrings(griffe.Extension):
    """Changes overloads and sections of docstrings after griffe has loaded a package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        self._complete(pkg)

    def _complete(self, scope: griffe.Module | griffe.Class) -> None:
        for name, overloads in scope.overloads.items():
            if overloads and name not in scope.members:
                scope.set_member(name, self._one_function(name, overloads))
        for member in list(scope.members.values()):
            if member.is_alias:
                continue
            if member.docstring is not None:
                member.docstring.value = EXAMPLE.sub(r"\1Examples:", member.docstring.value)
            if isinstance(member, griffe.Module | griffe.Class):
                self._complete(member)

    def _one_function(self, name: str, overloads: list[griffe.Function]) -> griffe.Function:
        shown = next((each for each in overloads if each.docstring), overloads[-1])
        made = griffe.Function(
            name,
            lineno=shown.lineno,
            endlineno=shown.endlineno,
            parameters=shown.parameters,
            returns=shown.returns,
            docstring=shown.docstring,
        )
        made.overloads = [each for each in overloads if each is not shown]
        made.labels = set(shown.labels)
        return made
