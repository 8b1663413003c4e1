"""Notebooks as pages of the site: executed once for each state of notebook and code, then read as Markdown."""

import base64
import hashlib
import html
import logging
import re
import subprocess
from pathlib import Path
from typing import Any

import nbformat
from myst_parser.parsers.sphinx_ import MystParser
from nbclient import NotebookClient
from sphinx.application import Sphinx
from sphinx.util import logging as sphinx_logging

DOCS = Path(__file__).parent
CODE, KEPT = DOCS.parent / "src" / "hpfl", DOCS / "_build" / "notebooks"
LONGEST_S = 600
_log = sphinx_logging.getLogger(__name__)
_QUIET = logging.Logger("notebooks", logging.ERROR)


class NotebookParser(MystParser):
    """Reads a notebook of the site."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: Any) -> None:
        """Execute, where that was not done before, and read what came out."""
        name = Path(document.current_source).name
        super().parse(as_markdown(executed(inputstring, name), name), document)


def executed(source: str, name: str) -> Any:
    """The notebook with its outputs; they are kept until the notebook or the code changes."""
    kept = _place(source, name)
    if kept.exists():
        return nbformat.read(kept, as_version=4)
    _log.info("executing %s", name)
    notebook = nbformat.reads(source, as_version=4)
    KEPT.mkdir(parents=True, exist_ok=True)
    client = NotebookClient(notebook, timeout=LONGEST_S, resources={"metadata": {"path": str(KEPT)}}, log=_QUIET)
    client.execute(stderr=subprocess.DEVNULL)  # the kernel's own remarks; what cells say there is an output
    for old in KEPT.glob(f"{Path(name).stem}-????????????????.ipynb"):
        old.unlink()
    nbformat.write(notebook, kept)
    return notebook


def _place(source: str, name: str) -> Path:
    """Where the executed notebook is kept."""
    return KEPT / f"{Path(name).stem}-{_digest(source)}.ipynb"


def outdated(app: Sphinx, env: Any, *_lists: set[str]) -> list[str]:
    """The notebooks that no longer show what their code does."""
    pages = {name: Path(app.srcdir, env.doc2path(name)) for name in env.found_docs}
    notebooks = {name: path for name, path in pages.items() if path.suffix == ".ipynb"}
    return [name for name, path in notebooks.items() if not _place(path.read_text("utf-8"), path.name).exists()]


def _digest(source: str) -> str:
    """Of a notebook and all code that it may run."""
    found = hashlib.blake2b(source.encode(), digest_size=8)
    for path in sorted(CODE.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def as_markdown(notebook: Any, name: str) -> str:
    """Cells one after the other, each with what it showed; a line below the title says where to get the notebook."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts += [_fenced(cell.source, "python"), *(_shown(output) for output in _joined(cell.outputs))]
    title, _, rest = parts[0].partition("\n")
    taken = f"{{download}}`Download this notebook <{name}>`. Below each cell is what it showed when this page was made."
    return "\n\n".join(part for part in (title, taken, rest.strip(), *parts[1:]) if part) + "\n"


def _joined(outputs: list[Any]) -> list[Any]:
    """Pieces of one stream are one output."""
    found: list[Any] = []
    for output in outputs:
        last = found[-1] if found else {}
        if output.output_type == "stream" and last.get("name") == output.name:
            last["text"] += output.text
        else:
            found.append(nbformat.from_dict(dict(output)))
    return found


def _shown(output: Any) -> str:
    """An output as Markdown: HTML and pictures as they are, else its text."""
    data = output.get("data", {})
    if "text/html" in data:
        return _fenced(f'<div class="cell-output">{_closed(data["text/html"])}</div>', "{raw} html")
    if "image/png" in data:
        code = "".join(data["image/png"].split())
        base64.b64decode(code, validate=True)
        said = html.escape(data.get("text/plain", "figure"))
        return _fenced(f'<img class="cell-output" alt="{said}" src="data:image/png;base64,{code}">', "{raw} html")
    text = output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", []))
    return _fenced(text.rstrip("\n"), "{code-block} text\n:class: cell-output\n")


def _closed(inside: str) -> str:
    """Markup without the empty lines, which would end it."""
    return re.sub(r"\n\s*\n", "\n", inside)


def _fenced(text: str, kind: str) -> str:
    """A block whose fence is longer than any within."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`+", text))])
    return f"{fence}{kind}\n{text}\n{fence}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    app.connect("env-get-outdated", outdated)
    return {"parallel_read_safe": True}
