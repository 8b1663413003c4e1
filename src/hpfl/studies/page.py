"""The page of a reproduction, `index.html`: claims first, then every figure with its data, command and machine."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.config import to_toml
from hpfl.reporting.page_style import whole_page
from hpfl.studies.collected import Collected

PAGE = "index.html"
_LOOKS = {"holds": "holds", "does not hold": "not", "inconclusive": "open"}


def write_page(outcomes: Sequence[Collected], judged: Sequence[Mapping[str, Any]], out: Path, command: str) -> Path:
    """Write the page into `out`, whole in itself; CSV files lie beside it."""
    body = [_head(outcomes, command), _claims(judged), *(_study(outcome, out, command) for outcome in outcomes)]
    text = whole_page("HPFL: the paper, reproduced", "".join(body))
    atomic.write_text(out / PAGE, text)
    return out / PAGE


def _head(outcomes: Sequence[Collected], command: str) -> str:
    unique = {found["name"]: found for outcome in outcomes for found in outcome.found}
    seeds = {found["labels"]["seed"] for found in unique.values()}
    return (
        "<h1>The paper, reproduced</h1>"
        "<p>Hierarchical personalised federated learning over mobile edge networks: every figure drawn again from "
        "runs, every claim judged by them.</p>"
        f'<p class="muted">{len(unique)} runs, {len(seeds)} seeds, {_duration(_wall_s(unique.values()))} of run time '
        f"in all, on {escape(', '.join(machines(unique.values())))}. Made by <code>{escape(command)}</code>.</p>"
    )


def _claims(judged: Sequence[Mapping[str, Any]]) -> str:
    if not judged:
        return ""
    rows = "".join(
        f"<tr><td>{claim['id']}</td><td>{escape(claim['claim'])}<details><summary>{len(claim['parts'])} statements"
        f"</summary>{_statements(claim['parts'])}</details></td><td>{badge(claim['verdict'])}</td>"
        f'<td class="number">{interval(claim)}</td><td class="number">{claim["seeds"]} seeds</td>'
        f'<td class="muted">{escape(claim["decided_by"])}</td></tr>'
        for claim in judged
    )
    return (
        "<h2>What the paper claims, and what the runs say</h2>"
        "<p>Each claim is split into statements about one figure each, paired by seed. A statement holds where its "
        "interval (Student's, over seeds) lies wholly in the claimed range, and does not where it lies wholly "
        "outside; a claim holds if all its statements do, and does not if one does not. Printed intervals are of 95%; "
        "a verdict asks for more, so that of all decided statements on this page at most one in twenty is expected "
        "to be wrong (Benjamini and Hochberg). The figures are those of the statement that decides, named last.</p>"
        '<div class="scroll"><table class="claims"><thead><tr><th></th><th>claim</th><th>verdict</th>'
        f"<th>estimate and interval</th><th></th><th>decided by</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _statements(parts: Iterable[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(part['statement'])}</td><td>{badge(part['verdict'])}</td>"
        f'<td class="number">{interval(part)}</td><td class="number">{wanted(part)}</td></tr>'
        for part in parts
    )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'


def _study(outcome: Collected, out: Path, command: str) -> str:
    study, there = outcome.study, len(outcome.found)
    pictures = "".join(_picture(path, study.title) for path in outcome.figures if path.suffix == ".svg")
    files = [path.relative_to(out).as_posix() for path in outcome.figures]
    files += [f"{study.name}/{name}.csv" for name in outcome.tables]
    links = ", ".join(f'<a href="{escape(name)}">{escape(Path(name).name)}</a>' for name in files)
    missing = f" ({there} of {len(outcome.parts)} runs so far)" if there < len(outcome.parts) else ""
    judged = _statements(part.to_json() for part in outcome.statements) if outcome.statements else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in study.notes(outcome.tables))
    shown = "".join(_table(outcome.tables[name], name) for name in study.shown)
    return (
        f'<h2 id="{study.name}">{study.name}: {escape(study.title)}{missing}</h2><p>{escape(study.about)}</p>'
        f'{pictures}<p class="muted">Files: {links}</p>{judged}{notes}{shown}{_origin(outcome, command)}'
    )


def _picture(path: Path, title: str) -> str:
    content = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="{escape(title)}" src="data:image/svg+xml;base64,{content}"></figure>'


def _table(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    if not rows:
        return ""
    columns = [name for name in rows[0] if not name.endswith(("_low", "_high"))]
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(_cell(row, name) for name in columns) + "</tr>" for row in rows)
    return (
        f"<details><summary>{escape(name)}, as a table of {len(rows)} rows</summary>"
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    text = figure(value) if isinstance(value, float) else escape("" if value is None else str(value))
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    ends = f" [{figure(low)}, {figure(high)}]" if isinstance(low, float) and isinstance(high, float) else ""
    return f'<td class="number">{text}{ends}</td>' if isinstance(value, (int, float)) else f"<td>{text}</td>"


def _origin(outcome: Collected, command: str) -> str:
    seeds = sorted({found["labels"]["seed"] for found in outcome.found})
    names = sorted({part.name.rpartition("/")[0] for part in outcome.parts})
    listing = "\n".join(names)
    alone = f"hpfl reproduce {outcome.study.name}" + "".join(command.partition(" --")[1:])
    return (
        f'<p class="muted">Alone: <code>{escape(alone)}</code>. {len(outcome.found)} runs, seeds '
        f"{', '.join(map(str, seeds))}, {_duration(_wall_s(outcome.found))} of run time, on "
        f"{escape(', '.join(machines(outcome.found)))}.</p>"
        f"<details><summary>names of all {len(names)} cases, and the whole configuration of the first</summary>"
        f"<pre>{escape(listing)}</pre><pre>{escape(to_toml(outcome.parts[0].config))}</pre></details>"
    )


def badge(verdict: str) -> str:
    """A verdict that colour and word both tell."""
    return f'<span class="verdict {_LOOKS[verdict]}">{verdict}</span>'


def interval(entry: Mapping[str, Any]) -> str:
    """Estimate and interval, with the unit."""
    if entry["estimate"] is None:
        return "cannot be computed"
    scale, unit = _unit(entry)
    ends = "" if entry["low"] is None else f" [{figure(scale * entry['low'])}, {figure(scale * entry['high'])}]"
    return f"{figure(scale * entry['estimate'])}{ends}{unit}"


def wanted(part: Mapping[str, Any]) -> str:
    """The range that the claim says the figure lies in."""
    scale, unit = _unit(part)
    least, most = (None if end is None else f"{figure(scale * end)}{unit if end else ''}" for end in _ends(part))
    if least is not None and most is not None:
        return f"wanted {least} to {most}"
    return f"wanted above {least}" if least is not None else f"wanted below {most}"


def _ends(part: Mapping[str, Any]) -> tuple[float | None, float | None]:
    return part["least"], part["most"]


def _unit(entry: Mapping[str, Any]) -> tuple[float, str]:
    """Shares are written in per cent, or points where they are differences; a ratio needs no word."""
    unit = entry["unit"]
    return {"points": (100.0, " points"), "share": (100.0, " %"), "ratio": (1.0, "")}.get(unit, (1.0, f" {unit}"))


def figure(value: float) -> str:
    """Four digits, which is more than any interval here leaves certain."""
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def machines(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """The kinds of machine that the runs were made on."""
    seen = dict.fromkeys(f"{part['environment']['device']} (PyTorch {part['environment']['torch']})" for part in found)
    return list(seen)


def _wall_s(found: Iterable[Mapping[str, Any]]) -> float:
    return sum(part.get("wall_s") or 0.0 for part in found)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.0f} s"
