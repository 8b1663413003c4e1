"""The part of YAML that the files in deploy/ use: blocks of keys and lists, words, quoted strings, JSON in one line."""

import json
import re

_KEY = re.compile(r"([\w./-]+):(?: (.+))?")


def documents(text):
    """All documents of a file; whatever is not of that part of YAML is an error."""
    return [_document(part) for part in re.split(r"^---$", text, flags=re.MULTILINE)]


def _document(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert not any("\t" in line or line != line.rstrip() for line in lines), "tabs, or blanks at the end of a line"
    rows = [(len(line) - len(line.lstrip()), line.strip()) for line in lines]
    value, left = _block(rows, rows[0][0])
    assert not left, f"what is {left[0]}?"
    return value


def _block(rows, indent):
    return _items(rows, indent) if rows[0][1].startswith("- ") else _mapping(rows, indent)


def _items(rows, indent):
    found = []
    while rows and rows[0][0] == indent and rows[0][1].startswith("- "):
        rest = rows[0][1][2:]
        if _KEY.fullmatch(rest):
            value, rows = _mapping([(indent + 2, rest), *rows[1:]], indent + 2)
        else:
            value, rows = _scalar(rest), rows[1:]
        found.append(value)
    return found, rows


def _mapping(rows, indent):
    found = {}
    while rows and rows[0][0] == indent and not rows[0][1].startswith("- "):
        matched = _KEY.fullmatch(rows[0][1])
        assert matched, f"no key in {rows[0][1]!r}"
        name, word = matched.groups()
        assert name not in found, f"{name} stands there twice"
        rows = rows[1:]
        if word is not None:
            found[name] = _scalar(word)
        else:
            assert [row for row in rows[:1] if row[0] > indent], f"nothing under {name}"
            found[name], rows = _block(rows, rows[0][0])
    assert not rows or rows[0][0] <= indent, f"{rows[0][1]!r} is too far in"
    return found, rows


def _scalar(word):
    if word[0] in '[{"':
        return json.loads(word)
    if word in {"true", "false"}:
        return word == "true"
    assert not set(word) & set("'&*!|>%@`#"), f"{word!r} may mean something else in YAML: quote it"
    return int(word) if word.isdigit() else word
