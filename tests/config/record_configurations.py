"""Writes down what configurations are called, and how some are saved: `python record_configurations.py > FILE`.

`recorded_configurations.json` was made so by the version before parts had options, and is not to be made again: it is
what runs of that version lie beside, whose folders must go on being read, compared and resumed.
"""

import json
import sys

from hpfl.config import SYSTEMS, fingerprint, load, preset_names, to_toml

OVERRIDES = (
    [],
    ["training.rounds=7", "training.checkpoint_every=3", "evaluation.target_accuracy=0.8"],
    ["evaluation.target_loss=0.2"],
    ["training.seed=7"],
    ["training.aggregation=mean"],
    ["training.edge_rounds=3", "training.weighting=samples", "training.staleness_discount=0.5"],
    ["training.clock=event"],
    ["training.clock=event", "training.trigger=first", "planning.max_edges=3"],
    ["training.clock=event", "network.coherence_s=2.0"],
    ["training.broadcast=all"],
    ["network.fading=none"],
    ["network.fading=rayleigh"],
    ["network.edges=4", "network.ues_per_edge=[1, 2, 3, 4]"],
    ["network.ue_path_loss=umi", "network.edge_path_loss=uma", "network.carrier_ghz=28.0"],
    ["network.ue_path_loss=sionna-umi"],
    ["network.cpu_hz={choice=[1e9, 2e9], shares=[0.3, 0.7]}", "network.ue_power_w=[0.005, 0.02]"],
    ["network.cycles_per_bit={lognormal=[20.0, 0.5]}", "network.bits_per_parameter=16"],
    ["network.bandwidth_hz=2000000", "network.coherence_rounds=4"],
    ["network.trace=trace.csv"],
    ["network.write_trace=trace.csv"],
    ["data.partitioner=dirichlet", "data.concentration=0.1"],
    ["data.partitioner=iid", "data.disjoint=false"],
    ["data.labels_per_ue=5", "data.edge_skew=1.0"],
    ["data.dataset=folder:mine", "data.signature=abc"],
    ["data.signature=abc"],
    ["learning.objective=exact"],
    ["learning.objective=first-order"],
    ["learning.objective=hessian-free"],
    ["learning.objective=hessian-free", "learning.hessian_free_delta=0.01"],
    ["learning.hessian_free_delta=0.01"],
    ["learning.inner_lr=0.0", "learning.objective=first-order"],
    ["learning.inner_steps=3", "learning.local_steps=2", "learning.batch_size=8", "learning.batches=independent"],
    ["learning.charged_passes=counted"],
    ["learning.dtype=float64", "learning.memory_gb=1.5"],
    ["learning.model=lenet5", "learning.loss=mse"],
    ["learning.model=torch.nn:Identity", "learning.loss=torch.nn.functional:cross_entropy"],
    ["planning.phi=3.0", "planning.rho=0.5"],
    ["planning.planner=joint"],
    ["planning.planner=alternating", "planning.staleness_bound=5"],
    ["planning.planner=random", "planning.importance=sketch", "planning.sketch_size=8"],
    ["planning.planner=round-robin"],
    ["planning.planner=random-cycle", "planning.max_edges=400"],
    ["planning.planner=scripted"],
    ["planning.planner=scripted", "planning.script=[[0, 1], [2, 3], [1, 19]]"],
    ["planning.planner=fastest", "planning.sketch_size=0"],
    ["planning.planner=fastest", "planning.staleness_price=none"],
    ["planning.planner=fastest", "planning.staleness_price=learned"],
    ["planning.planner=joint", "planning.staleness_price=none"],
    ["evaluation.inner_lr=0.1", "evaluation.inner_steps=5", "evaluation.ues=20", "evaluation.test_samples=9"],
    ["life.leave=0.1", "life.speed_m_per_s=[1.0, 2.0]", "life.edge_death=0.01"],
)
SAVED = (0, 5, 10, 27, 43, 47)
"""Of which overrides of quickstart the whole file is kept as it was saved."""


def cases():
    """Every preset as every system, quickstart with everything, and with an old key as every system."""
    for name in preset_names():
        for system in (None, *SYSTEMS):
            yield name, system, []
    yield from (("quickstart", None, overrides) for overrides in OVERRIDES)
    for system in SYSTEMS:
        yield "paper-mnist", system, ["learning.objective=first-order", "network.fading=none"]
        yield "quickstart", system, ["planning.staleness_price=none", "learning.inner_lr=0.05"]


def recorded(source, system, overrides):
    config = load(source, system=system, overrides=overrides)
    saved = source == "quickstart" and system is None and OVERRIDES.index(overrides) in SAVED
    saved = saved or (system is None and not overrides)
    return {
        "source": source,
        "system": system,
        "overrides": overrides,
        "fingerprint": fingerprint(config),
        **({"saved": to_toml(config).splitlines()} if saved else {}),
    }


if __name__ == "__main__":
    json.dump([recorded(*case) for case in cases()], sys.stdout, indent=1)
