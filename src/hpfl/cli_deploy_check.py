"""`hpfl cloud|edge|ue FILE --check`: one line for each thing a node needs, and status 2 where something is wrong."""

import json
from dataclasses import asdict
from typing import Any

import typer

from hpfl.deployment.node_check import node_findings


def report_check(settings: Any, *, as_json: bool) -> None:
    """Print what was found; ends with status 2 where a node of these settings would not do its part."""
    findings = []
    for finding in node_findings(settings):
        findings.append(finding)
        if not as_json:
            typer.echo(f"{'ok   ' if finding.ok else 'WRONG'} {finding.check:<11} {finding.told}")
    ok = all(finding.ok for finding in findings)
    if as_json:
        typer.echo(json.dumps({"node": settings.name, "ok": ok, "checks": [asdict(one) for one in findings]}))
    if not ok:
        raise typer.Exit(2)
