"""One file to send to somebody: the page, its scripts and what it shows, with nothing left to be fetched."""

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hpfl.watch.page_answers import FolderAnswers, UnknownError
from hpfl.watch.shown import as_json

MODULES = "modules.txt"
MOST_BYTES = 30_000_000
_ROUNDS_SHARE = 0.8
"""Of all bytes, what the rounds' details may take; the rest is charts and tables."""
_STYLE = re.compile(r'<link rel="stylesheet" href="([^":]+)" ?/?>')
_MODULE = re.compile(r'<script type="module" src="([^":]+)"></script>')
_SCRIPT = re.compile(r'<script src="([^":]+)"></script>')
_IMPORT = re.compile(r'^import\s+(?:\{[^}]*\}\s+from\s+)?"\./[^"]+";[ \t]*\n', flags=re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", flags=re.MULTILINE)


def exported_page(answers: FolderAnswers, static: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """The whole file."""
    facts = as_json(exported_data(answers, most_bytes))
    return inlined(static, facts)


def exported_data(answers: FolderAnswers, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Every answer by the path that it answers; as many rounds whole as fit, evenly over each run."""
    listed = {**answers.runs(), "live": False}
    found: dict[str, Any] = {"api/runs": listed}
    for run in listed["runs"]:
        found |= _of_run(answers, run["id"])
    kept, left = {}, int(most_bytes * _ROUNDS_SHARE) // max(len(listed["runs"]), 1)
    for run in listed["runs"]:
        details = dict(_details(answers, run["id"], run["rounds"], left))
        kept[run["id"]] = sorted(details)
        found |= {f"api/runs/{run['id']}/rounds/{number}": told for number, told in details.items()}
    thinned = any(len(kept[run["id"]]) < run["rounds"] for run in listed["runs"])
    note = "Not every round is here: details are of the rounds listed, charts of at most 2,000." if thinned else ""
    return {**found, "api/exported": {"rounds": kept, "thinned": thinned, "note": note}}


def _of_run(answers: FolderAnswers, name: str) -> dict[str, Any]:
    asked: dict[str, Callable[[], Any]] = {
        "columns": lambda: answers.columns(name, (None, None)),
        "gantt": lambda: answers.gantt(name, (None, None)),
        "edges": lambda: answers.edges(name, (None, None)),
        "plans": lambda: answers.plans(name, (None, None)),
        "ues": lambda: answers.ues(name, None),
        "nodes": lambda: answers.nodes(name),
    }
    found = {}
    for part, ask in asked.items():
        try:
            found[f"api/runs/{name}/{part}"] = ask()
        except UnknownError:
            continue
    return found


def _details(answers: FolderAnswers, name: str, rounds: int, most_bytes: int) -> Iterator[tuple[int, Any]]:
    """Rounds whole, evenly over the run and the last among them, as many as fit."""
    if not rounds:
        return
    each = max(len(as_json(answers.round(name, rounds))), 1)
    step = max(-(-rounds * each // most_bytes), 1)
    left = most_bytes
    for number in range(rounds, 0, -step):
        told = answers.round(name, number)
        left -= len(as_json(told))
        if left < 0:
            return
        yield number, told


def inlined(static: Path, facts: bytes) -> bytes:
    """The page with its styles and scripts inside, and a policy that allows these alone and no connection."""
    page = (static / "index.html").read_text(encoding="utf-8")
    allowed: dict[str, list[str]] = {"style-src": [], "script-src": []}

    def put(kind: str, tag: str, content: str, how: str = "") -> str:
        allowed[kind].append(_digest(content))
        return f"<{tag}{how}>{content}</{tag}>"

    page = _STYLE.sub(lambda found: put("style-src", "style", _safe(static, found[1])), page)
    page = _SCRIPT.sub(lambda found: put("script-src", "script", _safe(static, found[1])), page)
    page = _MODULE.sub(lambda _found: put("script-src", "script", joined_modules(static), ' type="module"'), page)
    data = facts.decode().replace("<", "\\u003c")
    block = f'<script type="application/json" id="hpfl-data">{data}</script>'
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_policy(allowed)}">'
    head = page.index("<head>") + len("<head>")
    page = page[:head] + "\n" + policy + page[head:]
    body = page.index("<body") if "<body" in page else head
    after = page.index(">", body) + 1
    return (page[:after] + "\n" + block + page[after:]).encode()


def joined_modules(static: Path) -> str:
    """All modules as one, in the order of `modules.txt`, without their imports and the word `export`."""
    names = (static / MODULES).read_text(encoding="utf-8").split()
    parts = [_EXPORT.sub("", _IMPORT.sub("", _read(static, name))) for name in names]
    return _unclosed("\n".join(parts), "script")


def _safe(static: Path, name: str) -> str:
    return _unclosed(_read(static, name), "style" if name.endswith(".css") else "script")


def _unclosed(content: str, tag: str) -> str:
    """Refuses what would end its element early."""
    if f"</{tag}" in content.lower() or "<!--" in content:
        raise ValueError(f"a file of the page has </{tag} or <!-- in it, which cannot stand inside of a {tag}")
    return content


def _read(static: Path, name: str) -> str:
    return (static / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _policy(allowed: dict[str, list[str]]) -> str:
    own = "; ".join(f"{kind} {' '.join(digests)}" for kind, digests in allowed.items() if digests)
    return f"default-src 'none'; {own}; img-src data:; base-uri 'none'; form-action 'none'"
