"""How the site is made of these pages: Sphinx reads the Markdown as it stands, and nothing comes from elsewhere."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT, RESULTS = DOCS.parent, DOCS / "reproduction"
sys.path[:0] = [str(DOCS), str(ROOT / "src")]

import hpfl  # noqa: E402  found by the line before

project, author, project_copyright = "HPFL", "The HPFL developers", "The HPFL developers"
version = release = hpfl.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "notebook_pages"]
exclude_patterns = ["_build", "reproduction"]

html_theme = "furo"
html_title = f"HPFL {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # answers that are cut off with "..." are not JSON

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of signatures: other libraries' pages are not on this machine
default_role = "code"
smartquotes = False  # `--set` has two hyphens
highlight_language = "none"  # blocks without a language are what a terminal shows
python_use_unqualified_type_names = True
maximum_signature_line_length = 100

_BACKTICKS = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def plain_links(app: Sphinx, tree: nodes.document) -> None:
    """Links to folders and to pages beside docs/ become their names, for the site has no such pages.

    Those to results of the reproduction lead to their copies.
    """
    page = Path(app.env.doc2path(app.env.docname)).parent
    for link in list(tree.findall(nodes.Element)):
        target = str(link.get("reftarget", link.get("refuri", "")))
        path = page / target.partition("#")[0]
        is_page = link.get("refdomain") == "doc"
        beside = is_page and DOCS not in Path(app.srcdir, target).resolve().parents
        if not target or ":" in target or not (path.exists() or is_page) or (is_page and not beside):
            continue
        if beside or path.is_dir():
            link.replace_self(nodes.inline("", "", *link.children))
        elif RESULTS in path.resolve().parents:
            link.replace_self(nodes.reference("", "", *link.children, internal=True, refuri=target))


def copy_results(app: Sphinx, error: Exception | None) -> None:
    """The page of the reproduction and its data, as they are."""
    if error is None and app.builder.format == "html":
        shutil.copytree(RESULTS, Path(app.outdir) / RESULTS.name, dirs_exist_ok=True)


def as_markdown(_app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are written as Markdown: `code` is literal, and stars, bars and underscores mean themselves."""
    for number, line in enumerate(lines):
        halves = _BACKTICKS.split(line)
        halves[::2] = [re.sub(r"([*|])|(?<=\w)(_)(?=\W|$)", r"\\\1\2", text) for text in halves[::2]]
        halves[1::2] = [f"``{code}``" for code in halves[1::2]]
        lines[number] = "".join(halves)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("doctree-read", plain_links)
    app.connect("build-finished", copy_results)
    app.connect("autodoc-process-docstring", as_markdown)
    return {"parallel_read_safe": True}
