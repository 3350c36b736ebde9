"""Plain texts: what a terminal, a page and a log show as it is.

Control characters move a terminal's cursor, marks of direction turn words around, characters without width hide a
difference, and half of a surrogate pair cannot be written as UTF-8.
"""

from __future__ import annotations

import re

_LINES = re.compile(r"[\n\t]")


def is_printable(text: str, *, lines: bool = False) -> bool:
    """Whether every character is seen as it is; with `lines`, tabs and ends of lines are, too."""
    return (_LINES.sub("", text) if lines else text).isprintable()


def escape(text: str) -> str:
    """The text with every other character as Python writes it in a literal, such as \\x1b; line ends and tabs stay."""
    return (
        text
        if is_printable(text, lines=True)
        else "".join(
            character if is_printable(character, lines=True) else character.encode("unicode_escape").decode("ascii")
            for character in text
        )
    )
