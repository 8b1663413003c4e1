"""Tables of results as Markdown, LaTeX and HTML."""

import re
from collections.abc import Sequence
from html import escape

from hpfl.sweeps.sweep_tables import ResultTable, TableCell, cell_text

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "×": r"$\times$",
    "±": r"$\pm$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"\textbar{}",
    '"': "''",
    "µ": r"$\mu$",
    "μ": r"$\mu$",
}


def markdown(tables: Sequence[ResultTable], note: str) -> str:
    """All tables, each under its title, and what the figures are."""
    return "\n\n".join([*(_markdown(table) for table in tables), note]) + "\n"


def _markdown(table: ResultTable) -> str:
    rules = ["---" if index < table.naming else "---:" for index in range(len(table.headings))]
    rows = [[plain_cell(cell).replace("|", "\\|") for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(row)} |" for row in ([name.replace("|", "\\|") for name in table.headings], rules, *rows)]
    return "\n".join([f"**{table.title}**", "", *lines])


def plain_cell(cell: TableCell) -> str:
    """A figure as people read it anywhere."""
    return cell_text(cell, span=lambda low, high: f"({low} .. {high})")


def html(table: ResultTable) -> str:
    """One table."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.headings)
    rows = "".join(
        "<tr>" + "".join(f'<td class="number">{escape(plain_cell(cell))}</td>' for cell in row) + "</tr>"
        for row in table.rows
    )
    return (
        f"<h2>{escape(table.title)}</h2>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def latex(tables: Sequence[ResultTable], note: str) -> str:
    """All tables, each a float of its own; they need the package booktabs."""
    head = r"% \usepackage{booktabs} in the preamble; \input{table} where the tables shall be."
    return "\n\n".join([head, *(_latex(table, note) for table in tables)]) + "\n"


def _latex(table: ResultTable, note: str) -> str:
    columns = "l" * table.naming + "r" * (len(table.headings) - table.naming)
    label = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
    rows = [" & ".join(_tex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{tex(table.title)}. {tex(note)}}}",
            rf"  \label{{tab:{label}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            f"    {' & '.join(tex(name) for name in table.headings)} \\\\",
            r"    \midrule",
            *(f"    {row}" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _tex_cell(cell: TableCell) -> str:
    if cell.mean is None:
        return tex(cell_text(cell, span=lambda low, high: ""))
    text = cell_text(cell, plus_minus=r" \pm ", times="", span=lambda low, high: rf"\;[{low}, {high}]")
    return f"${text}$"


def tex(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return "".join(_LATEX.get(letter, letter) for letter in text)
