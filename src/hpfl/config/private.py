"""Keys of user-level differential privacy: how updates are clipped and noised in a cell, and what a run may spend."""

from typing import TYPE_CHECKING, Literal

from hpfl.config.fields import key
from hpfl.config.old_keys import RenewedSection

if TYPE_CHECKING:
    from hpfl.config.whole import Config


class PrivacyConfig(RenewedSection):
    """Differential privacy of one UE's whole data, towards everybody outside of its cell."""

    section = "privacy"

    mechanism: Literal["none", "gaussian"] = key(
        "none", "what leaves a cell: updates as they are, or their clipped and noised sum", since=6
    )
    clip_norm: float = key(
        1.0, "C: a UE's update is scaled down to this norm; with adaptive the first one", gt=0, since=6
    )
    noise_multiplier: float = key(
        1.0, "z: the noise in a cell's sum has the standard deviation z C; 0 clips only, and promises nothing",
        ge=0, le=1e6, since=6,
    )  # fmt: skip
    noise_at: Literal["cell", "edge"] = key(
        "edge", "who adds the noise: every UE of the cell its share, or the edge", since=6
    )
    shares_for: float = key(
        1.0, "share of a cell's UEs whose shares alone make the noise (noise_at cell); an edge adds what lacks",
        gt=0, le=1, since=6,
    )  # fmt: skip
    adaptive: bool = key(False, "whether a cell's clip norm follows a quantile of its UEs' norms", since=6)
    target_quantile: float = key(0.5, "share of UEs that are not to be clipped (adaptive)", gt=0, lt=1, since=6)
    quantile_step: float = key(0.2, "C changes by exp(step) when all were wrong (adaptive)", gt=0, le=2, since=6)
    quantile_noise_multiplier: float = key(
        10.0, "noise of the count of unclipped UEs over its sensitivity (adaptive)", gt=0, le=1e6, since=6
    )
    delta: float = key(1e-5, "delta of the (epsilon, delta) that is told", gt=0, lt=1, since=6)
    accountant: Literal["exact", "rdp", "pld"] = key(
        "exact", "how releases are added up: closed form, or dp-accounting's RDP or PLD", since=6
    )
    budget_epsilon: float = key(0.0, "a run ends before it spends more than this; 0: no budget", ge=0, since=6)

    @property
    def on(self) -> bool:
        """Whether updates are clipped."""
        return self.mechanism != "none"


def check_privacy(config: "Config") -> None:
    """Refuse, by name, what a clipped and noised sum does not cover."""
    privacy = config.privacy
    if not privacy.on:
        return
    for wrong, found, why in (
        (
            config.training.edge_combine != "mean",
            f'training.edge_combine is "{config.training.edge_combine}"',
            "noise is made for a sum of clipped updates: give the mean; training.combine, at the cloud, is free",
        ),
        (
            config.training.weighting != "uniform",
            f'training.weighting is "{config.training.weighting}"',
            "weights by samples tell of the data, and one UE could weigh more than its clipped update",
        ),
        (
            bool(config.learning.uplink),
            f"learning.uplink is {config.learning.uplink!r}",
            "a step behind the clip may make an update longer than its clip norm: give []",
        ),
        (
            config.life.loses_ues,
            "section life loses UEs that have begun an edge round",
            "the same updates would leave the cell again without the lost; life.sample_fraction and "
            "life.sample_count are free",
        ),
        (
            config.secure.on and privacy.adaptive,
            "privacy.adaptive is true, and edges learn sums alone (secure.aggregation)",
            "nobody counts whose update was clipped: give a clip_norm",
        ),
        (
            config.secure.on and privacy.noise_at == "cell" and config.secure.leavers == "tolerated",
            'privacy.noise_at is "cell", secure.aggregation is "cell" and secure.leavers is "tolerated"',
            "the sketch of a UE that leaves would have its own share of the noise alone: give secure.leavers = "
            '"refused", or privacy.noise_at = "edge"',
        ),
        (config.hostile.on, f'hostile.attack is "{config.hostile.attack}"', "the hostile would not clip"),
        (
            bool(privacy.budget_epsilon) and not privacy.noise_multiplier,
            f"privacy.budget_epsilon is {privacy.budget_epsilon:g}",
            "without noise (privacy.noise_multiplier = 0) the first update spends more",
        ),
    ):
        if wrong:
            raise ValueError(f'{found}; with privacy.mechanism = "{privacy.mechanism}" {why}')
