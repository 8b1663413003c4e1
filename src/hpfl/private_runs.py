"""What section [privacy] means: how cells clip and noise, what accounts for it, and when a run has spent its budget."""

import numpy as np

from hpfl.arrays import IntArray
from hpfl.config import ConfigError, Experiment
from hpfl.learning.masking.cell_sum import CellSum
from hpfl.learning.method import is_silent
from hpfl.learning.sending import Sending
from hpfl.network.sampling import Sampling
from hpfl.privacy import AccountantUnavailableError, Ledger, accountant
from hpfl.privacy.discrete_gaussian import LEAST_SIGMA
from hpfl.rng import Streams
from hpfl.training.loop import is_spent
from hpfl.training.private_cells import MOST_NOISE, CellPrivacy, Quantile, planned_shares, share_of_noise
from hpfl.training.state import TrainState


def cell_privacy(config: Experiment, sending: Sending) -> CellPrivacy | None:
    """How cells are private; None: they are not."""
    privacy, life = config.privacy, config.life
    if not privacy.on:
        return None
    if is_silent(sending.method):
        raise ConfigError(
            f'privacy.mechanism is "{privacy.mechanism}"; method {config.learning.method} sends nothing to be noised'
        )
    sampling = Sampling(fraction=life.sample_fraction, count=life.sample_count)
    return CellPrivacy(
        noise_multiplier=privacy.noise_multiplier,
        clip_norm=privacy.clip_norm,
        noise_at=privacy.noise_at,
        planned=planned_shares(sampling.wanted(config.network.ues_of_edges), privacy.shares_for),
        streams=Streams(config.training.seed),
        places=sending.places,
        quantile=_quantile(config),
    )


def check_whole_numbers(private: CellPrivacy | None, cell: CellSum | None) -> None:
    """Refuse whole numbers under masks that are too coarse for the clip norm, or leave no room for UEs' noise.

    What one UE adds exceeds twelve standard deviations once in 10^33 numbers; there it is cut off.
    """
    if private is None or cell is None:
        return
    if private.clip_norm <= cell.rounding:
        raise ConfigError(
            f"privacy.clip_norm is {private.clip_norm:g}; rounding to whole numbers may add "
            f"{cell.rounding:.3g} to a norm (secure.range, secure.bits): wanted more secure.bits, or a smaller range"
        )
    own = 0.0
    if private.noise_at == "cell":
        own = share_of_noise(private.noise_multiplier, private.clip_norm, int(private.planned.min()))
        if 0 < own < LEAST_SIGMA * cell.step:
            raise ConfigError(
                f"secure.bits leaves {own / cell.step:.3g} steps to a deviation of a UE's noise; wanted at least "
                f"{LEAST_SIGMA:g}, below which sums of noise in whole numbers are not normal: more secure.bits, or a "
                "smaller secure.range"
            )
    wanted = private.clip_norm + MOST_NOISE * own
    if cell.largest < wanted:
        raise ConfigError(
            f"secure.range is {cell.largest:g}; an update clipped to {private.clip_norm:g}, with a UE's share of noise "
            f"of {own:.3g}, takes up to {wanted:.4g}: wanted at least that"
        )


def _quantile(config: Experiment) -> Quantile | None:
    privacy = config.privacy
    if not privacy.adaptive:
        return None
    return Quantile(
        target=privacy.target_quantile,
        step=privacy.quantile_step,
        noise_multiplier=privacy.quantile_noise_multiplier,
    )


_DEPLOYED = 3
"""Releases by which a deployed round may bring a UE nearer to its budget: its sketch, its update without a UE that was
in the sketch, and the sketch on the next model, which leaves before anybody asks whether there is to be another."""


def ledger_of(config: Experiment, *, deployed: bool = False) -> Ledger | None:
    """The account of a run; None: nothing is private. A budget that the first round could exceed is refused."""
    privacy = config.privacy
    if not privacy.on:
        return None
    counted = (privacy.quantile_noise_multiplier,) if privacy.adaptive else ()
    try:
        own = accountant(privacy.accountant, (privacy.noise_multiplier, *counted), privacy.delta)
    except AccountantUnavailableError as error:
        raise ConfigError(f'privacy.accountant is "{privacy.accountant}"; {error}') from error
    ledger = Ledger(
        accountant=own,
        budget=privacy.budget_epsilon,
        per_model=_DEPLOYED if deployed else config.training.edge_rounds,
        edge_of_ue=None if deployed or config.life.on else _edge_of_ue(config.network.ues_of_edges),
    )
    first = own.epsilon(ledger.per_model) if ledger.budget else 0.0
    if first > ledger.budget:
        raise ConfigError(
            f"privacy.budget_epsilon is {ledger.budget:g}; the first round spends {first:.4g}: wanted more noise "
            "(privacy.noise_multiplier), or a larger budget"
        )
    return ledger


def is_out_of_budget(config: Experiment, state: TrainState, *, deployed: bool = False) -> bool:
    """Whether a run has ended since its next round could exceed the budget."""
    return bool(config.privacy.budget_epsilon) and is_spent(state, ledger_of(config, deployed=deployed))


def _edge_of_ue(ues_of_edges: IntArray) -> IntArray:
    return np.repeat(np.arange(len(ues_of_edges)), ues_of_edges)
