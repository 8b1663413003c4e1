"""The TOML file of one node, validated once: who it is, where it listens, whom it trusts, and its limits."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from hpfl.config import Experiment, load, resolve
from hpfl.config.fields import Section, key

Node = TypeVar("Node", bound="NodeSettings")

_LARGEST_FILE_BYTES = 1_000_000


class SettingsError(ValueError):
    """A node's file that cannot be used; `str()` is one line per fault."""


class TlsSettings(Section):
    """Files made by `hpfl certs`; relative paths start at the folder of the TOML file."""

    ca: str = key("ca.pem", "certificate of the authority all nodes trust")
    certificate: str = key("node.pem", "this node's certificate")
    private_key: str = key("node.key", "its private key, readable by its owner alone")
    revoked: str = key("", "list of revoked certificates; read again whenever it changes; empty for none")


class LimitSettings(Section):
    """What no peer may exceed."""

    update_norm: float = key(1e3, "largest Euclidean norm of an update", gt=0)
    norm_ratio: float = key(
        4.0, "updates are scaled down to this many times a running median of norms; 0: they are not", ge=0
    )
    num_samples: int = key(
        0, "most samples a UE may declare; 0: as many as the experiment deals to one", unit="samples", ge=0
    )
    sample_ratio: float = key(20.0, "a UE counts for at most this many times the median of declared samples", ge=1)
    share: float = key(0.5, "largest share of a mean that one of three or more UEs may have", gt=0, le=1)
    loss_ratio: float = key(
        100.0, "a loss that a UE reports is at most this many times the median of UEs' losses; 0: any", ge=0
    )
    connections: int = key(4096, "connections a server holds at once", ge=1)
    buffer_mb: float = key(3.0, "memory for updates on their way in; at least eight are let in", unit="MB", gt=0)
    refusals: int = key(50, "refused messages after which a child is cut off", ge=1)
    per_address: int = key(
        0, "connections of one address that carry no child's stream; 0: twice the roster, and 16", ge=0
    )
    visit_s: float = key(300.0, "seconds a visitor has to take the model", unit="s", gt=0)
    handshake_s: float = key(10.0, "seconds a connection has to prove who it is", unit="s", gt=0)
    idle_s: float = key(
        30.0, "longest silence inside a vector, and longest wait for a child to take one", unit="s", gt=0
    )
    keepalive_s: float = key(
        20.0, "silence after which a connection is probed, and given up if still silent", unit="s", gt=0
    )


class TimingSettings(Section):
    """How long who waits for whom."""

    gather_s: float = key(60.0, "after a start, how long to wait for children that are not there yet", unit="s", ge=0)
    settle_s: float = key(
        2.0,
        "where a run goes on and a quorum is back, how long after the last one came or went it does",
        unit="s",
        ge=0,
    )
    compute_s: float = key(120.0, "how long to wait for children to compute on a new model", unit="s", gt=0)
    deadline_factor: float = key(2.0, "a deadline is this many times the planned seconds, plus the slack", ge=1)
    deadline_slack_s: float = key(5.0, "seconds added to every deadline", unit="s", ge=0)
    evaluate_s: float = key(120.0, "how long to wait for UEs to evaluate a model", unit="s", gt=0)
    quorum: float = key(0.5, "share of the children that must have answered before a learnt wait may end", ge=0, le=1)
    least_wait_s: float = key(1.0, "no learnt wait is shorter than this", unit="s", gt=0)
    slowest: float = key(10.0, "a child is waited for at most this many times what children usually take", ge=1)
    retry_s: float = key(5.0, "longest pause between attempts to reach the parent", unit="s", gt=0)
    refused_retry_s: float = key(
        60.0, "longest pause between attempts of a node that its parent turns away", unit="s", gt=0
    )
    patience_s: float = key(
        600.0, "how long a cloud waits for any edge, or a visitor for the model, before it says so", unit="s", gt=0
    )
    finish_s: float = key(60.0, "after SIGTERM, how long an update on its way is waited for", unit="s", ge=0)


class NodeSettings(Section):
    """What every node's file has."""

    name: str = key("", "name in this node's certificate")
    experiment: str = key("quickstart", "preset or TOML file of the experiment; the same at every node")
    set: list[str] = Field(default_factory=list, description='overrides such as "network.bandwidth_hz=2e6"')
    input_shape: list[Annotated[int, Field(ge=1)]] = Field(
        default_factory=list, description="shape of one input; empty: that of the experiment's data set"
    )
    num_outputs: int = key(0, "outputs of the model; 0: the classes of the experiment's data set", ge=0)
    metrics: str = key("", "host:port for Prometheus metrics; empty for none")
    log: Literal["debug", "info", "warning"] = key("info", "least severity that is logged, as JSON lines")
    tls: TlsSettings = Field(default_factory=TlsSettings, description="certificates")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="what no peer may exceed")
    timing: TimingSettings = Field(default_factory=TimingSettings, description="how long who waits for whom")

    def config(self) -> Experiment:
        """The experiment all nodes share."""
        return resolve(load(self.experiment, overrides=self.set))


class CloudNodeSettings(NodeSettings):
    """`hpfl cloud FILE`."""

    name: str = key("cloud", "name in this node's certificate")
    listen: str = key("127.0.0.1:7700", "host:port for edges; port 0 lets the system choose")
    edges: list[str] = Field(
        default_factory=list, description='names of the edges in order, "-": nobody; empty: edge-0, edge-1, ...'
    )
    edges_file: str = key("", "a file of these names instead, one per line, which is read again whenever it changes")
    out: str = key("run", "folder for rounds.jsonl, summary.json, checkpoints and the audit log")
    paced: bool = key(True, "whether uploads take the seconds that were planned")
    time_scale: float = key(1.0, "planned seconds are multiplied by this before they are waited", gt=0)
    checkpoint_every: int = key(1, "rounds between checkpoints", unit="rounds", ge=1)
    audit: Literal["full", "hashes"] = key("full", "keep aggregated updates, or only their digests")
    serve: bool = key(False, "whether to go on serving the finished model")
    gives_up: bool = key(False, "whether to end, where no edge has an update for timing.patience_s, and not to wait on")


class EdgeNodeSettings(NodeSettings):
    """`hpfl edge FILE`."""

    number: int = key(0, "this edge's number, from 0", ge=0)
    listen: str = key("127.0.0.1:7701", "host:port for UEs; port 0 lets the system choose")
    cloud: str = key("127.0.0.1:7700", "host:port of the cloud")
    cloud_name: str = key("cloud", "name in the cloud's certificate")
    ues: list[str] = Field(
        default_factory=list, description='names of its UEs in order, "-": nobody; empty: ue-N of the experiment'
    )
    ues_file: str = key("", "a file of these names instead, one per line, which is read again whenever it changes")
    state: str = key("state", "folder for what this edge keeps between rounds, such as what its codec left unsent")


class UeNodeSettings(NodeSettings):
    """`hpfl ue FILE`."""

    number: int = key(0, "this UE's number among all UEs, from 0", ge=0)
    edge: str = key("127.0.0.1:7701", "host:port of its edge")
    edge_name: str = key("edge-0", "name in the edge's certificate")
    data: str = key("", "a folder, or module:function returning tensors; empty: its part of the experiment's data set")
    data_dir: str = key("", "where the experiment's data set lies; empty: as for `hpfl run`")
    state: str = key("state", "folder for what this UE keeps between rounds, such as a private head")
    threads: int = key(1, "CPU threads of the computation", ge=1)


def read_settings(kind: type[Node], path: Path) -> Node:
    """A node's file, its paths made absolute; faults are named with their keys."""
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise SettingsError(f"{path} has {path.stat().st_size} bytes; a node's file is small")
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        settings = kind.model_validate(tree)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    except ValidationError as error:
        lines = (f"{path}: {'.'.join(str(part) for part in f['loc'])}: {f['msg']}" for f in error.errors())
        raise SettingsError("\n".join(lines)) from None
    return _with_absolute_paths(settings, path.resolve().parent)


def _with_absolute_paths(settings: Node, folder: Path) -> Node:
    for name in ("ca", "certificate", "private_key"):
        setattr(settings.tls, name, str(folder / getattr(settings.tls, name)))
    settings.tls.revoked = settings.tls.revoked and str(folder / settings.tls.revoked)
    if isinstance(settings, CloudNodeSettings):
        settings.out = str(folder / settings.out)
        settings.edges_file = settings.edges_file and str(folder / settings.edges_file)
    if isinstance(settings, EdgeNodeSettings):
        settings.ues_file = settings.ues_file and str(folder / settings.ues_file)
    if (folder / settings.experiment).is_file():
        settings.experiment = str(folder / settings.experiment)
    if isinstance(settings, EdgeNodeSettings | UeNodeSettings):
        settings.state = str(folder / settings.state)
    if isinstance(settings, UeNodeSettings) and settings.data and (folder / settings.data).is_dir():
        settings.data = str(folder / settings.data)
    return settings
