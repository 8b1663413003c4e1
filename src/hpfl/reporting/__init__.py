"""Files, progress, figures: everything that only watches a run; what reads a run's results is here."""

from typing import TYPE_CHECKING

from hpfl.lazy import offered

if TYPE_CHECKING:
    from hpfl.atomic import replacing, write_text
    from hpfl.reporting.compare import compare_runs
    from hpfl.reporting.console import RunDisplay
    from hpfl.reporting.store import OutputError, read_config, read_rounds, read_summary
    from hpfl.reporting.timeline import read_timeline

__all__ = [
    "OutputError",
    "RunDisplay",
    "compare_runs",
    "read_config",
    "read_rounds",
    "read_summary",
    "read_timeline",
    "replacing",
    "write_text",
]

_KNOWN_BY = {
    "hpfl.reporting.compare": ("compare_runs",),
    "hpfl.reporting.console": ("RunDisplay",),
    "hpfl.reporting.store": ("OutputError", "read_config", "read_rounds", "read_summary"),
    "hpfl.reporting.timeline": ("read_timeline",),
    "hpfl.atomic": ("replacing", "write_text"),
}

__getattr__, __dir__ = offered(__name__, _KNOWN_BY)
