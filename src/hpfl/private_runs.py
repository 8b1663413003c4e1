"""What section [privacy] means: how cells clip and noise, what accounts for it, and when a run has spent its budget."""

import numpy as np

from hpfl.arrays import IntArray
from hpfl.config import ConfigError, Experiment
from hpfl.learning.method import is_silent
from hpfl.learning.sending import Sending
from hpfl.network.sampling import Sampling
from hpfl.privacy import AccountantUnavailableError, Ledger, accountant
from hpfl.rng import Streams
from hpfl.training.loop import is_spent
from hpfl.training.private_cells import CellPrivacy, Quantile, planned_shares
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


def _quantile(config: Experiment) -> Quantile | None:
    privacy = config.privacy
    if not privacy.adaptive:
        return None
    return Quantile(
        target=privacy.target_quantile,
        step=privacy.quantile_step,
        noise_multiplier=privacy.quantile_noise_multiplier,
    )


def ledger_of(config: Experiment) -> Ledger | None:
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
        per_model=config.training.edge_rounds,
        edge_of_ue=None if config.life.on else _edge_of_ue(config.network.ues_of_edges),
    )
    first = own.epsilon(ledger.per_model) if ledger.budget else 0.0
    if first > ledger.budget:
        raise ConfigError(
            f"privacy.budget_epsilon is {ledger.budget:g}; the first round spends {first:.4g}: wanted more noise "
            "(privacy.noise_multiplier), or a larger budget"
        )
    return ledger


def is_out_of_budget(config: Experiment, state: TrainState) -> bool:
    """Whether a run has ended since its next round could exceed the budget."""
    return bool(config.privacy.budget_epsilon) and is_spent(state, ledger_of(config))


def _edge_of_ue(ues_of_edges: IntArray) -> IntArray:
    return np.repeat(np.arange(len(ues_of_edges)), ues_of_edges)
