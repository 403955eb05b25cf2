"""An extension of griffe (mkdocs.yml names this file), which reads the package for the Python reference.

In a stub no function follows its overloads, and griffe keeps only what follows them. Here the first overload
that has a docstring becomes the function, and the signatures of the others are shown above it. `Example:` in
a docstring becomes the word of the Google style, `Examples:`.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)


class PublicDocstrings(griffe.Extension):
    """Completes what griffe reads, once a package is loaded."""

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
