"""Engines by name, each imported when it is asked for: one machine's, and that of a cluster where it is installed."""

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from hpfl.config import ConfigError
from hpfl.sweeps.jobs import JobEngine

ENGINES: Mapping[str, str] = {
    "local": "hpfl.sweeps.local_engine:LocalEngine",
    "ray": "hpfl.clusters.ray_engine:RayEngine",
}
"""`module:class` of each, called with `workers` (0: as many as it sees fit) and `gpus` (0: none)."""


def make_engine(name: str, *, workers: int = 0, gpus: int = 0, **options: Any) -> JobEngine:
    """The engine of this name, with what else it takes; it has started nothing yet."""
    if name not in ENGINES:
        raise ConfigError(f"no engine is called {name!r}; there are {', '.join(ENGINES)}")
    try:
        made: Callable[..., JobEngine] = resolve_name(ENGINES[name])
    except ImportError:
        raise ConfigError(f"engine {name!r} is not installed here: pip install 'hpfl[{name}]'") from None
    return made(workers, gpus=gpus, **options)
