"""Slow, independent answers to the planner's problems: convex programming, nested bisection, and all subsets."""

import itertools
import math

import cvxpy as cp
import numpy as np

LN2 = math.log(2.0)


def convex_latency_s(problem, scheduled):
    """P4 by a general convex solver: rates as relative entropies, `bits ln 2 / T` below them."""
    edges = np.flatnonzero(scheduled)
    ues = np.flatnonzero(scheduled[problem.edge_of_ue])
    position = np.searchsorted(edges, problem.edge_of_ue[ues])
    unit_hz = problem.bandwidth_hz / (ues.size + edges.size)
    snr = np.concatenate([problem.ue_snr_hz[ues], problem.edge_snr_hz[edges]]) / unit_hz
    nats = np.concatenate([problem.ue_bits[ues], problem.edge_bits[edges]]) * LN2 / unit_hz
    unit_s = nats.mean()
    share, phase, latency = cp.Variable(snr.size, pos=True), cp.Variable(edges.size), cp.Variable()
    uploads = cp.hstack([phase[position] - problem.compute_s[ues] / unit_s, latency - phase])
    scale = 1.0 + snr  # keeps both arguments of the entropy near 1
    rate = -cp.rel_entr(share, cp.multiply(1.0 / scale, share + snr)) + cp.multiply(np.log(scale), share)
    constraints = [cp.multiply(nats / unit_s, cp.inv_pos(uploads)) <= rate, cp.sum(share) <= snr.size]
    cp.Problem(cp.Minimize(latency), constraints).solve(solver=cp.CLARABEL)
    return float(latency.value) * unit_s


def least_hz(bits, seconds, snr_hz):
    """Bisection on `b` until the rate formula sends the bits in time; infinite if no bandwidth does."""
    if bits == 0:
        return 0.0
    if bits * LN2 >= seconds * snr_hz:
        return math.inf
    low, high = 0.0, 1.0
    while high * math.log1p(snr_hz / high) * seconds < bits * LN2:
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        enough = middle * math.log1p(snr_hz / middle) * seconds >= bits * LN2
        low, high = (low, middle) if enough else (middle, high)
    return high


def edge_hz(problem, k, latency_s):
    """`D_k(O)` by golden section over the edge phase."""
    ues = [i for i in np.flatnonzero(problem.edge_of_ue == k) if problem.ue_bits[i] > 0]

    def total(phase_s):
        hz = least_hz(problem.edge_bits[k], latency_s - phase_s, problem.edge_snr_hz[k])
        for i in ues:
            hz += least_hz(problem.ue_bits[i], phase_s - problem.compute_s[i], problem.ue_snr_hz[i])
        return hz

    first = max((problem.compute_s[i] + problem.ue_bits[i] * LN2 / problem.ue_snr_hz[i] for i in ues), default=0.0)
    last = latency_s - problem.edge_bits[k] * LN2 / problem.edge_snr_hz[k]
    if first >= last:
        return math.inf if ues else total(0.0)
    if not ues or problem.edge_bits[k] == 0:
        return total(0.0 if not ues else latency_s)
    low, high, golden = first, last, 0.6180339887498949
    for _ in range(90):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if total(left) <= total(right) else (left, high)
    return total(0.5 * (low + high))


def bisected_latency_s(problem, scheduled, around_s):
    """P4 by bisection on the round's latency, nested in it golden section and bisection; starts around a guess."""
    edges = np.flatnonzero(scheduled)
    low, high = 0.5 * around_s, 2.0 * around_s
    while high - low > 1e-11 * high:
        middle = 0.5 * (low + high)
        fits = sum(edge_hz(problem, k, middle) for k in edges) <= problem.bandwidth_hz
        low, high = (low, middle) if fits else (middle, high)
    return high


def allowed_sets(problem):
    """Every set a plan may schedule, by enumeration."""
    K = problem.importance.size
    must = problem.staleness >= problem.staleness_bound
    most = max(problem.max_edges, int(must.sum()))
    for bits in itertools.product((False, True), repeat=K):
        scheduled = np.array(bits)
        if 1 <= scheduled.sum() <= most and scheduled[must].all():
            yield scheduled
