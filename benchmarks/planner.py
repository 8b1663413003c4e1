"""How fast the planner is, and against whom.

    .venv/bin/python benchmarks/planner.py [--json] [--quick] [--only TEXT] [--repeat N]

Networks are those of the paper's section 7.1 (distances, Rayleigh fading, MNIST sizes), with the spectrum grown with
the number of links. Times are medians over repeats in one process, float64. Each row names the baseline measured in
the same run: `paper` (Algorithms 1-3), SHPFL's equal split, or cvxpy with the fastest open solver among those that
report an optimum. A row is `ok` if it meets its bar; `ratio` is the baseline's figure divided by ours.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from statistics import fmean, median

import numpy as np

from hpfl.learning.codecs.menu import MENU
from hpfl.planning.allocation import realise
from hpfl.planning.bandwidth import allocate
from hpfl.planning.baselines import equal_split
from hpfl.planning.broadcast import Downlink
from hpfl.planning.codings import Codings
from hpfl.planning.planners import PLANNERS
from hpfl.planning.problem import RoundProblem
from hpfl.rng import Streams
from hpfl.units import db_to_linear, dbm_to_w

MODEL_BITS = 79_510 * 32.0  # MLP 784-100-10
MNIST_SAMPLE_BITS = 784 * 8


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    work: str
    value: float
    unit: str
    bar: str
    ok: bool
    baseline: str
    baseline_value: float
    ratio: float


def network(seed: int, K: int, ues: int, importance: float = 0.03, spectrum: str = "fixed") -> RoundProblem:
    """A random network of the paper's section 7.1 with K edges of `ues` UEs each, and 5 MHz per 200 UEs."""
    streams, N = Streams(seed), K * ues
    ue_m = 2.0 + 48.0 * streams.at("ue distance").uniform(N)
    edge_m = 50.0 + 150.0 * streams.at("edge distance").uniform(K)
    samples = 50 + streams.at("samples").integers(301, N)
    return RoundProblem(
        bandwidth_hz=5e6 * N / 200,
        rho=0.8,
        phi=9.33,
        max_edges=max(1, 3 * K // 4),
        staleness_bound=20,
        edge_gain=db_to_linear(-40) * edge_m**-2 * streams.at("edge fading").exponential(K),
        edge_power_w=np.full(K, 0.01),
        edge_noise_w_per_hz=np.full(K, dbm_to_w(-174)),
        edge_bits=np.full(K, MODEL_BITS),
        importance=importance * streams.at("importance").exponential(K),
        staleness=streams.at("staleness").integers(20, K),
        edge_of_ue=np.repeat(np.arange(K), ues),
        ue_gain=db_to_linear(-36) * ue_m**-2 * streams.at("ue fading").exponential(N),
        ue_power_w=np.full(N, 0.01),
        ue_noise_w_per_hz=np.full(N, dbm_to_w(-174)),
        ue_bits=np.full(N, MODEL_BITS),
        compute_s=20.0 * MNIST_SAMPLE_BITS * samples / 2e9,
        spectrum=spectrum,
    )


def charged(problem: RoundProblem) -> RoundProblem:
    """The same network with a way down at the servers' 10 mW and the menu that a planner may choose codings from."""
    K, numbers = problem.num_edges, int(MODEL_BITS) // 32
    bits = tuple(float(chain.bits(numbers, 32)) for chain in MENU)
    cell_snr_hz = np.full(K, np.inf)
    np.minimum.at(cell_snr_hz, problem.edge_of_ue, problem.ue_snr_hz)
    down = Downlink(
        edge_snr_hz=problem.edge_snr_hz,
        cell_snr_hz=cell_snr_hz,
        edge_bits=np.zeros(K),
        cell_bits=np.zeros(K),
        cell_ues=np.bincount(problem.edge_of_ue, minlength=K),
        model_bits=MODEL_BITS,
        step_bits=bits,
        message_bits=bits,
    )
    usual, delays = (0.0, 1e-3, 0.3, 20.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0, 1.6, 3.8, 8.0)
    menu = Codings(ue_bits=bits, edge_bits=bits, noise=np.outer(np.ones(K), usual), usual=usual, delays=delays)
    return replace(problem, downlink=down, codings=menu)


def seconds(work: Callable[[], object], repeat: int) -> float:
    """Median wall-clock seconds of `work`, after one run to warm up."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def everybody(problem: RoundProblem) -> np.ndarray:
    return np.ones(problem.num_edges, dtype=bool)


def equal_split_s(problem: RoundProblem, scheduled: np.ndarray) -> float:
    """Round latency of SHPFL's equal split."""
    switch = "one" if problem.spectrum == "phased" else None
    return realise(problem, scheduled, *equal_split(problem, scheduled), switch=switch).round_latency_s


def planning(name: str, problem: RoundProblem) -> object:
    return PLANNERS.get(name)(problem, {}, Streams(0).at("planning"))


def p4_row(K: int, ues: int, bar_s: float, repeat: int, spectrum: str = "fixed") -> Row:
    """Exact bandwidth, beside the time SHPFL's equal split takes for the same links."""
    problem = network(1, K, ues, spectrum=spectrum)
    ours = seconds(lambda: allocate(problem, everybody(problem)), repeat)
    theirs = seconds(lambda: equal_split_s(problem, everybody(problem)), repeat)
    work = f"P4{'' if spectrum == 'fixed' else ' phased'}, {K:,} edges x {ues:,} UEs"
    return Row(work, ours, "s", f"<= {bar_s:g} s", ours <= bar_s, "SHPFL equal split", theirs, theirs / ours)


def joint_row(K: int, ues: int, bar_s: float, repeat: int, spectrum: str = "fixed") -> Row:
    """The joint plan with its certificate, beside the time of the paper's planner."""
    problem = network(1, K, ues, spectrum=spectrum)
    ours = seconds(lambda: planning("joint", problem), repeat)
    theirs = seconds(lambda: planning("paper", problem), max(1, repeat // 3))
    work = f"joint{'' if spectrum == 'fixed' else ' phased'}, {K:,} x {ues:,}"
    return Row(work, ours, "s", f"<= {bar_s:g} s", ours <= bar_s, "paper", theirs, theirs / ours)


def fastest_row(K: int, ues: int, bar_s: float, repeat: int) -> Row:
    """Sizes of the pool, codings of both ways and the step, with all that a round takes; beside the paper's planner."""
    problem = charged(network(1, K, ues, spectrum="phased"))
    ours = seconds(lambda: planning("fastest", problem), repeat)
    theirs = seconds(lambda: planning("paper", problem), max(1, repeat // 3))
    work = f"fastest, all charged, codings chosen, {K:,} x {ues:,}"
    return Row(work, ours, "s", f"<= {bar_s:g} s", ours <= bar_s, "paper", theirs, theirs / ours)


def gap_row(K: int, ues: int, networks: int) -> Row:
    """The largest certified gap of joint plans over networks and importances, beside the paper's planner against it."""
    ours, theirs = [], []
    for seed in range(networks):
        problem = network(seed, K, ues, importance=(1.0, 0.03, 0.01, 0.003)[seed % 4])
        plan, paper = planning("joint", problem)[0], planning("paper", problem)[0]  # type: ignore[index]
        ours.append(plan.relative_gap)
        theirs.append((paper.objective - plan.lower_bound) / problem.scale(paper.scheduled, paper.round_latency_s))
    work = f"joint, {K:,} x {ues:,}: largest relative gap of {networks} plans"
    return Row(
        work, max(ours), "", "<= 0.01", max(ours) <= 0.01, "paper, mean", fmean(theirs), fmean(theirs) / max(ours)
    )


def memory_row(K: int, ues: int) -> Row:
    """Peak memory of a process that makes the network and allots its bandwidth."""

    def peak_gb(extra: str) -> float:
        command = [sys.executable, __file__, "--measure-memory", f"{K},{ues}", extra]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    ours, theirs = peak_gb("p4"), peak_gb("none")
    work = f"P4, {K:,} x {ues:,}: peak memory"
    return Row(work, ours, "GB", "< 1 GB", ours < 1.0, "making the network alone", theirs, theirs / ours)


def measure_memory(K: int, ues: int, work: str) -> None:
    problem = network(1, K, ues)
    if work == "p4":
        allocate(problem, everybody(problem))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9)


def growth_row(small: int, large: int, repeat: int) -> Row:
    """Time of P4 with `large`^2 links over that with `small`^2, beside linear growth."""
    few, many = network(1, small, small), network(1, large, large)
    factor = (large / small) ** 2
    shorter = seconds(lambda: allocate(few, everybody(few)), 20 * repeat)
    longer = seconds(lambda: allocate(many, everybody(many)), repeat)
    grown = longer / shorter
    work = f"growth of P4 from {small * small:,} to {large * large:,} links"
    return Row(work, grown, "x", f"<= {1.2 * factor:g} x", grown <= 1.2 * factor, "linear", factor, factor / grown)


def cvxpy_p4(problem: RoundProblem, solver: str) -> float | None:
    """Round latency by a general convex solver, scaled with care; None where it reports no optimum."""
    import cvxpy as cp

    K, N = problem.num_edges, problem.num_ues
    unit_hz = problem.bandwidth_hz / (N + K)
    snr = np.concatenate([problem.ue_snr_hz, problem.edge_snr_hz]) / unit_hz
    nats = np.concatenate([problem.ue_bits, problem.edge_bits]) * np.log(2.0) / unit_hz
    unit_s, scale = nats.mean(), 1.0 + snr
    share, phase, latency = cp.Variable(N + K, pos=True), cp.Variable(K), cp.Variable()
    uploads = cp.hstack([phase[problem.edge_of_ue] - problem.compute_s / unit_s, latency - phase])
    rate = -cp.rel_entr(share, cp.multiply(1.0 / scale, share + snr)) + cp.multiply(np.log(scale), share)
    constraints = [cp.multiply(nats / unit_s, cp.inv_pos(uploads)) <= rate, cp.sum(share) <= N + K]
    program = cp.Problem(cp.Minimize(latency), constraints)
    options = {"max_iters": 2_000} if solver == "SCS" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.solve(solver=solver, **options)
    return float(latency.value) * unit_s if program.status == "optimal" else None


def cvxpy_rows(K: int, ues: int, repeat: int) -> Iterator[Row]:
    """Speed and agreement with the fastest open solver that reports an optimum."""
    import cvxpy as cp

    problem = network(1, K, ues)
    times: dict[str, tuple[float, float]] = {}
    for solver in ("CLARABEL", "ECOS", "SCS"):
        if solver in cp.installed_solvers():
            start = time.perf_counter()
            found = cvxpy_p4(problem, solver)
            if found is not None:
                times[solver] = (time.perf_counter() - start, found)
    solver = min(times, key=lambda name: times[name][0])
    theirs = seconds(lambda: cvxpy_p4(problem, solver), max(1, repeat // 3))
    ours = seconds(lambda: allocate(problem, everybody(problem)), 10 * repeat)
    name, links = f"cvxpy with {solver}", f"{K * ues + K:,} links"
    speed = theirs / ours
    yield Row(f"P4 against {name}, {links}", ours, "s", ">= 200 times faster", speed >= 200, name, theirs, speed)
    off = abs(times[solver][1] / allocate(problem, everybody(problem)).round_latency_s - 1.0)
    yield Row(f"P4 against {name}: difference", off, "", "<= 1e-6", off <= 1e-6, name, times[solver][1], 1.0)


def latency_row(networks: int) -> Row:
    """How much longer SHPFL's equal split takes than exact bandwidth for the same random sets of 15 edges."""
    ours, theirs = [], []
    for seed in range(networks):
        problem = network(seed, 20, 10)
        scheduled = np.zeros(20, dtype=bool)
        scheduled[Streams(seed).at("set").choice(20, 15)] = True
        ours.append(allocate(problem, scheduled).round_latency_s)
        theirs.append(equal_split_s(problem, scheduled))
    ratio = fmean(other / own for own, other in zip(ours, theirs, strict=True))
    work = f"round latency, mean of {networks} networks"
    return Row(work, fmean(ours), "s", ">= 1.6 times shorter", ratio >= 1.6, "SHPFL equal split", fmean(theirs), ratio)


def rows(quick: bool, repeat: int) -> list[tuple[str, Callable[[], Iterator[Row]]]]:
    """The table's rows, each to be measured when it is asked for."""
    side, count = (300, 20) if quick else (1000, 200)

    def one(make: Callable[[], Row]) -> Callable[[], Iterator[Row]]:
        return lambda: iter([make()])

    return [
        ("p4 small", one(lambda: p4_row(20, 10, 1e-3, 20 * repeat))),
        ("joint small", one(lambda: joint_row(20, 10, 10e-3, 5 * repeat))),
        ("p4 large", one(lambda: p4_row(side, side, 1.0, repeat))),
        ("phased p4 small", one(lambda: p4_row(20, 10, 1e-3, 20 * repeat, "phased"))),
        ("phased p4 large", one(lambda: p4_row(side, side, 1.0, repeat, "phased"))),
        ("phased joint small", one(lambda: joint_row(20, 10, 50e-3, 5 * repeat, "phased"))),
        ("fastest small", one(lambda: fastest_row(20, 10, 20e-3, 5 * repeat))),
        ("memory", one(lambda: memory_row(side, side))),
        ("joint large", one(lambda: joint_row(side, side, 10.0, 1))),
        ("growth", one(lambda: growth_row(100, side, repeat))),
        ("cvxpy", lambda: cvxpy_rows(40, 49, repeat)),
        ("latency", one(lambda: latency_row(count))),
        ("gap", one(lambda: gap_row(100, 10, max(4, count // 10)))),
    ]


def show(row: Row) -> str:
    def figure(value: float) -> str:
        return f"{value:.3g} {row.unit}".strip()

    verdict = "ok  " if row.ok else "MISS"
    beside = f"{row.baseline}: {figure(row.baseline_value)}, ratio {row.ratio:.3g}"
    return f"{verdict}  {row.work:<52} {figure(row.value):>10}   bar {row.bar:<20} {beside}"


def main() -> None:
    parser = argparse.ArgumentParser(description="The planner's speed, memory and quality against named baselines.")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--quick", action="store_true", help="300 x 300 in place of 1,000 x 1,000, fewer networks")
    parser.add_argument(
        "--only", default="", help="rows whose name contains this: p4, joint, memory, growth, cvxpy, ..."
    )
    parser.add_argument("--repeat", type=int, default=5, help="more repeats, steadier medians")
    parser.add_argument("--measure-memory", nargs=2, metavar=("SIZE", "WORK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure_memory:
        K, ues = map(int, options.measure_memory[0].split(","))
        measure_memory(K, ues, options.measure_memory[1])
        return
    for name, measure in rows(options.quick, options.repeat):
        if options.only in name:
            for row in measure():
                print(json.dumps(asdict(row), default=bool) if options.json else show(row), flush=True)


if __name__ == "__main__":
    main()
