"""Words that may be a peer's, made fit to be logged, printed and sent on: short, on one line, nothing but text."""

LONGEST = 300
"""Characters of a reason or of a field of the log; the rest is counted."""


def plain(text: str, *, longest: int = LONGEST) -> str:
    """The text cut to a length, without anything that moves a cursor, ends a line or turns its direction."""
    shown = "".join(_plain(character) for character in text[:longest])
    if len(shown) > longest or len(text) > longest:
        return f"{shown[:longest]}... ({len(text)} characters)"
    return shown


def _plain(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
