"""Whether a node would start and find its way: everything it needs is looked at, and nothing is started or written."""

import os
import resource
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpfl.deployment.data_check import check_own_data
from hpfl.deployment.deployed_run import refuse_what_only_a_simulator_can
from hpfl.deployment.health import host_and_port
from hpfl.deployment.identity import ANNOUNCED_S, check_own_certificate
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import edge_roster, ue_roster
from hpfl.deployment.open_files import KEPT_FILES
from hpfl.deployment.own_data import own_data
from hpfl.deployment.parent_check import checked_parent
from hpfl.deployment.revocations import revoked_serials
from hpfl.deployment.security import read_files
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings, NodeSettings, SettingsError, UeNodeSettings


class SkippedError(Exception):
    """A check that could not be made because an earlier one found a fault; `str()` names that check."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `told` is what was found, or what is wrong and what to do."""

    check: str
    ok: bool
    told: str


@dataclass
class _Found:
    """What earlier checks have made for later ones."""

    made: dict[str, Any] = field(default_factory=dict)

    def get(self, check: str) -> Any:
        if check not in self.made:
            raise SkippedError(check)
        return self.made[check]


Look = Callable[[_Found], str]


def node_findings(settings: NodeSettings) -> Iterator[Finding]:
    """Look at everything a node of this file needs, one thing after the other, cheap ones first."""
    found = _Found()
    for check, look in _looks(settings):
        yield _looked(check, look, found)


def _looked(check: str, look: Look, found: _Found) -> Finding:
    try:
        return Finding(check, True, look(found))
    except SkippedError as error:
        return Finding(check, False, f"not looked at: mend {error} first")
    except (ValueError, OSError) as error:
        return Finding(check, False, " ".join(str(error).splitlines()))
    except Exception as error:  # noqa: BLE001  a model or data of one's own may raise anything at all
        return Finding(check, False, f"{type(error).__name__}: {' '.join(str(error).splitlines())}")


def _looks(settings: NodeSettings) -> Iterator[tuple[str, Look]]:
    yield "files", lambda found: _files(settings)
    yield "certificate", lambda found: _certificate(settings)
    yield "experiment", lambda found: _experiment(settings, found)
    yield "model", lambda found: _model(settings, found)
    if isinstance(settings, UeNodeSettings):
        yield "data", lambda found: _data(settings, found)
        yield "state", lambda found: _writable(settings.state, "state")
        yield "edge", lambda found: checked_parent(settings.tls, settings.edge, settings.edge_name, "edge")
    if isinstance(settings, CloudNodeSettings):
        yield "out", lambda found: _writable(settings.out, "out")
    if isinstance(settings, EdgeNodeSettings):
        yield "state", lambda found: _writable(settings.state, "state")
    if isinstance(settings, CloudNodeSettings | EdgeNodeSettings):
        yield "listen", lambda found: _free(settings.listen, "listen")
        yield "room", lambda found: _room(settings, found)
    if isinstance(settings, EdgeNodeSettings):
        yield "cloud", lambda found: checked_parent(settings.tls, settings.cloud, settings.cloud_name, "cloud")
    if settings.metrics:
        yield "metrics", lambda found: _free(settings.metrics, "metrics")


def _files(settings: NodeSettings) -> str:
    read_files(settings.tls)
    return "authority, certificate and key can be read, the key by its owner alone"


def _certificate(settings: NodeSettings) -> str:
    serves, connects = not isinstance(settings, UeNodeSettings), not isinstance(settings, CloudNodeSettings)
    own = check_own_certificate(settings, serves=serves, connects=connects)
    soon = "; renew it soon" if own.left_s < ANNOUNCED_S else ""
    listed = len(revoked_serials(Path(settings.tls.revoked), own.authorities)) if settings.tls.revoked else 0
    revoked = f"; {listed} revoked by {settings.tls.revoked}" if settings.tls.revoked else ""
    days = f"{own.left_s / 86_400:.0f} more days"
    return f"{settings.name}, by the authority that is trusted here, for {days}{soon}{revoked}"


def _experiment(settings: NodeSettings, found: _Found) -> str:
    config = settings.config()
    network = config.network
    if isinstance(settings, UeNodeSettings) and settings.number >= network.num_ues:
        raise SettingsError(f"number is {settings.number}; the experiment has {network.num_ues} UEs, from 0")
    if isinstance(settings, CloudNodeSettings):
        refuse_what_only_a_simulator_can(config)
    found.made["roster"] = _roster(settings, config)
    found.made["experiment"] = config
    return f"{settings.experiment}: {network.edges} edges, {network.num_ues} UEs, fingerprint {config.fingerprint[:12]}"


def _roster(settings: NodeSettings, config: Any) -> int:
    """How many children a node has."""
    if isinstance(settings, CloudNodeSettings):
        return len(edge_roster(settings, config))
    return len(ue_roster(settings, config)) if isinstance(settings, EdgeNodeSettings) else 0


def _model(settings: NodeSettings, found: _Found) -> str:
    found.get("experiment")
    work = found.made["model"] = SharedWork(settings)
    masked = "" if work.secure is None else f", secure sums in words of {work.secure.update.bits} bits"
    return f"{work.config.learning.model}: {work.spec.length} parameters{masked}"


def _data(settings: UeNodeSettings, found: _Found) -> str:
    work: SharedWork = found.get("model")
    data = own_data(settings.data, work.config, settings.number, data_dir=settings.data_dir)
    check_own_data(data, work.task, work.shapes)
    shape = tuple(data.inputs.shape[1:])
    return f"{len(data.inputs)} samples to train and {len(data.test_inputs)} to test, each of shape {shape}"


def _writable(folder: str, name: str) -> str:
    there = next(path for path in (Path(folder), *Path(folder).parents) if path.exists())
    if not there.is_dir():
        raise SettingsError(f"{name} is {folder}; {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise SettingsError(f"{name} is {folder}; this user may not write to {there}: change its owner, or {name}")
    return f"{folder} can be written"


def _free(address: str, name: str) -> str:
    host, port = host_and_port(address, name)
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SettingsError(f"{name} is {address}; {host} is no address of this machine ({error.strerror})") from None
    family, kind, protocol, _, place = places[0]
    with socket.socket(family, kind, protocol) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(place)
            trial.listen(1)
        except OSError as error:
            raise SettingsError(
                f"{name} is {address}, which cannot be used ({error.strerror}); end whoever has it (`ss -ltnp`), "
                "or choose another"
            ) from None
    return f"{address} is free"


def _room(settings: CloudNodeSettings | EdgeNodeSettings, found: _Found) -> str:
    found.get("experiment")
    children, (_, files) = found.get("roster"), resource.getrlimit(resource.RLIMIT_NOFILE)
    if children > settings.limits.connections:
        raise SettingsError(
            f"limits.connections is {settings.limits.connections}; {children} children are on the roster: raise it"
        )
    if files < children + KEPT_FILES:
        raise SettingsError(
            f"{files} files may be open; {children} children need {children + KEPT_FILES}: raise `ulimit -Hn`, or "
            "LimitNOFILE in the unit"
        )
    return f"{children} children on the roster, {files} files may be open"
