"""`hpfl plan`: read one round's problem from a file or standard input, plan it, print the plan."""

import json
import os
import sys
import time
from typing import Annotated, BinaryIO

import typer

MOST_BYTES = 512 * 2**20  # a million links are some 100 MB of JSON
BAD_INPUT = 2


def plan_command(
    file: Annotated[str, typer.Argument(metavar="FILE.json", help="The problem; - reads standard input.")],
    planner: Annotated[
        str,
        typer.Option(
            help="joint, fastest, alternating, paper, paper+p4, full, random, shpfl, round-robin or random-cycle "
            "(docs/planning.md)."
        ),
    ] = "joint",
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as one JSON object.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the planners that draw: random, shpfl and random-cycle.")] = 0,
) -> None:
    """Choose who uploads this round and give every link its bandwidth.

    The file describes one round: the bandwidth to share, the weights, and every edge with its UEs.

    \b
    {"bandwidth_hz": 5e6, "noise_w_per_hz": 3.98e-21, "model_bits": 2544320,
     "rho": 0.8, "phi": 9.33, "max_edges": 15, "staleness_bound": 20,
     "edges": [
       {"id": "es-0", "gain": 1e-9, "power_w": 0.01, "importance": 1.2,
        "staleness": 3, "bits": 2544320,
        "ues": [{"id": "ue-0", "gain": 1e-7, "power_w": 0.01,
                 "compute_s": 0.02, "bits": 2544320}]}]}

    \b
    bits       still to send; model_bits by default, 0 once delivered
    staleness  0 by default; at staleness_bound the edge has to upload
    id         the position by default
    Also: noise_w_per_hz on any link, energy_j on a UE, sketch on an edge,
    "spectrum": "phased" beside "edges" (the band shared anew in each phase).

    \b
    Try:  hpfl plan round.json
          hpfl plan - --planner paper --json < round.json
    """
    raise typer.Exit(run_plan_command(file, planner=planner, as_json=as_json, seed=seed))


def run_plan_command(source: str, *, planner: str, as_json: bool, seed: int) -> int:
    """Plan the problem in `source` and print the plan; 2, after one line on standard error, where that cannot be."""
    from hpfl.planning.documents import plan_to_json, problem_from_json  # what --help needs none of
    from hpfl.planning.planners import PLANNERS, advice, caution, certified, plan
    from hpfl.registry import UnknownNameError
    from hpfl.reporting.plans import print_plan

    try:
        PLANNERS.get(planner)  # a misspelt name is worth no reading
        problem = problem_from_json(read_source(source))
        started_s = time.perf_counter()
        made = plan(problem, planner, seed=seed, certify=False)
        planning_s = time.perf_counter() - started_s
        made = certified(problem, made)
    except UnknownNameError as error:
        return _complain(f"{error}")
    except (ValueError, ArithmeticError) as error:
        return _complain(f"{_place(source)}: {error}")
    except OSError as error:
        return _complain(f"{_place(source)}: {error.strerror or error}")
    for line in (*advice(problem), *caution(problem, made)):
        print(f"hpfl plan: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps(plan_to_json(problem, made, planning_s), allow_nan=False))
    else:
        print_plan(problem, made, planning_s=planning_s)
    return 0


def read_source(source: str) -> bytes:
    """The bytes of a file, or of standard input for `-`; `ValueError` beyond `MOST_BYTES`, before reading a file."""
    if source == "-":
        return _read(sys.stdin.buffer)
    with open(source, "rb") as file:  # noqa: PTH123  a FIFO or /dev/fd/3 is as good as a file
        _check_size(os.fstat(file.fileno()).st_size)
        return _read(file)


def _read(file: BinaryIO) -> bytes:
    content = file.read(MOST_BYTES + 1)
    _check_size(len(content))
    return content


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES // 2**20} MiB; a planning problem may not be larger")


def _place(source: str) -> str:
    return "standard input" if source == "-" else source


def _complain(said: str) -> int:
    line = " ".join(f"hpfl plan: {said}".splitlines())
    print("".join(letter if letter.isprintable() else "?" for letter in line), file=sys.stderr)
    return BAD_INPUT
