"""GPU kernels of convolutions with weights of each UE's own, whose outputs are made two by two.

A program holds the sums of `TILE` outputs over `BLOCK` blocks of two by two pixels in registers and reads each input
once for up to four of them; nothing is added up in an order that depends on timing, so the same call gives the same
bits. Pooled errors stay small: their value, and which of the four pixels (`place`; 4: none, the ReLU is flat) it is of.
"""
# mypy: ignore-errors
# ruff: noqa: PLR0917, PLR0124, E741, RUF005  the kernel language knows neither structures nor unpacking

import torch
import triton
import triton.language as tl


def sum_type(dtype: torch.dtype):
    """What numbers of a type are added up in."""
    return tl.float64 if dtype == torch.float64 else tl.float32


@triton.jit
def _inputs(
    plane, y, x, inside,
    H: tl.constexpr, W: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
    P: tl.constexpr, Q: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """The TALL x WIDE inputs that start at row y - P and column x - Q of an image, zero outside of it; x is even."""
    paired: tl.constexpr = W % 2 == 0 and Q % 2 == 0  # then two neighbours are read at once
    values = ()
    two = tl.arange(0, 2)[None, :]
    for i in tl.static_range(TALL):
        row = plane + (y + (i - P)) * W + x
        if paired:
            for j in tl.static_range(0, WIDE - 1, 2):
                real = inside
                if P > 0 or Q > 0:
                    real = real & (y + (i - P) >= 0) & (y + (i - P) < H) & (x + (j - Q) >= 0) & (x + (j - Q) < W)
                left, right = tl.split(tl.load((row + (j - Q))[:, None] + two, mask=real[:, None], other=0.0).to(ACC))
                values = values + (left, right)
        for j in tl.static_range(WIDE // 2 * 2 if paired else 0, WIDE):
            real = inside
            if P > 0 or Q > 0:
                real = real & (y + (i - P) >= 0) & (y + (i - P) < H) & (x + (j - Q) >= 0) & (x + (j - Q) < W)
            values = values + (tl.load(row + (j - Q), mask=real, other=0.0).to(ACC),)
    return values


@triton.jit
def _pooled_inputs(
    plane, places, y, x, inside,
    H: tl.constexpr, W: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
    P: tl.constexpr, Q: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """The same of pooled values over H x W blocks, each put back where it came from; y and x count blocks."""
    values = ()
    for i in tl.static_range(TALL):
        for j in tl.static_range(WIDE):
            # 2 (P + Q) only keeps the numbers that are divided from being negative
            row = y + ((i - P + 2 * (P + Q)) // 2 - (P + Q))
            column = x + ((j - Q + 2 * (P + Q)) // 2 - (P + Q))
            real = inside & (row >= 0) & (row < H) & (column >= 0) & (column < W)
            value = tl.load(plane + row * W + column, mask=real, other=0.0).to(ACC)
            place = tl.load(places + row * W + column, mask=real, other=4)
            values = values + (tl.where(place == ((i + P) % 2) * 2 + (j + Q) % 2, value, 0.0),)
    return values


@triton.jit
def _convolved(
    a, source, weight, other, other_weight, places, channels, image, y, x, inside, outs,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    S: tl.constexpr, R: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """Outputs at the upper left, upper right, lower left and lower right pixel of each block, on top of a.

    Channels from C on are those of the other source. Weights are [out, in, taps], or [in, out, taps] where TURNED, with
    taps filled up to fours that are read at once.
    """
    taps: tl.constexpr = (KH * KW + 3) // 4 * 4
    b, c, d = a, a, a
    for number in range(channels):
        channel = number % C
        at = (image * C + channel) * (H * W)
        values = tl.where(number < C, source, other)
        if TURNED:
            v = _pooled_inputs(values + at, places + at, y, x, inside, H, W, KH + S, KW + R, P, Q, a.dtype)
        else:
            v = _inputs(values + at, y * (2 * S), x * (2 * R), inside, H, W, KH + S, KW + R, P, Q, a.dtype)
        own = tl.where(number < C, weight, other_weight)
        own += ((channel * O + outs if TURNED else outs * C + channel) * taps)[:, None]
        w = ()
        for tap in tl.static_range(0, taps, 4):
            four = tl.load(own + (tap + tl.arange(0, 4))[None, :]).to(a.dtype)
            even, odd = tl.split(tl.reshape(four, [four.shape[0], 2, 2]))
            zero, two = tl.split(even)
            one, three = tl.split(odd)
            w = w + (zero, one, two, three)
        for i in tl.static_range(KH):
            for j in tl.static_range(KW):
                t = w[KH * KW - 1 - i * KW - j if TURNED else i * KW + j][:, None]
                a += t * v[i * (KW + R) + j][None, :]
                b += t * v[i * (KW + R) + j + R][None, :]
                c += t * v[(i + S) * (KW + R) + j][None, :]
                d += t * v[(i + S) * (KW + R) + j + R][None, :]
    return a, b, c, d


@triton.jit(do_not_specialize=["fours", "other_fours", "bias_step", "channels", "count"])
def convolve(
    source, weight, fours, other, other_weight, other_fours, bias, bias_step, outputs, places, channels, count,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, S: tl.constexpr, R: tl.constexpr, P: tl.constexpr, Q: tl.constexpr,
    MODE: tl.constexpr, BIAS: tl.constexpr,
    TILE: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Outputs of count images of each UE by weights, plus those of another source by other weights (channels = 2 C).

    From one UE's weights to the next are so many fours, 0 where all share them.
    MODE "pool": the largest of each block where it is positive, and its place; "pick": the value at a given place;
    "back": all pixels, from pooled errors at given places by turned weights.
    """
    tall: tl.constexpr = (OH + 1) // 2 if MODE == "back" else OH // 2
    wide: tl.constexpr = (OW + 1) // 2 if MODE == "back" else OW // 2
    blocks = tl.cdiv(count * (tall * wide), BLOCK)
    ue = (tl.program_id(0) // blocks).to(tl.int64)
    number = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = number < count * (tall * wide)
    image = number // (tall * wide)
    y = number % (tall * wide) // wide
    x = number % wide
    outs = tl.program_id(1) * TILE + tl.arange(0, TILE)
    safe = tl.minimum(outs, O - 1)
    a = tl.zeros([TILE, BLOCK], ACC)
    if BIAS:
        a += tl.load(bias + ue * bias_step + safe).to(ACC)[:, None]
    first = ue * count * (C * H * W)
    a, b, c, d = _convolved(
        a, source + first, weight + ue * (fours * 4), other + first, other_weight + ue * (other_fours * 4),
        places + first, channels, image, y, x, inside, safe, C, H, W, O, KH, KW, S, R, P, Q, MODE == "back",
    )  # fmt: skip
    real = inside[None, :] & (outs < O)[:, None]
    plane = (ue * count + image[None, :]) * O + outs[:, None]
    if MODE == "back":
        at = (plane * OH + 2 * y[None, :]) * OW + 2 * x[None, :]
        below = (2 * y + 1 < OH)[None, :]
        right = (2 * x + 1 < OW)[None, :]
        tl.store(outputs + at, a, mask=real)
        tl.store(outputs + at + 1, b, mask=real & right)
        tl.store(outputs + at + OW, c, mask=real & below)
        tl.store(outputs + at + OW + 1, d, mask=real & below & right)
    else:
        at = (plane * tall + y[None, :]) * wide + x[None, :]
        if MODE == "pool":
            best, place = a, tl.zeros([TILE, BLOCK], tl.int32)
            for k in tl.static_range(1, 4):
                value = (a, b, c, d)[k]
                better = (value > best) | (value != value)  # what is not a number must not be lost
                best = tl.where(better, value, best)
                place = tl.where(better, k, place)
            flat = best <= 0
            tl.store(outputs + at, tl.where(flat, 0.0, best), mask=real)
            tl.store(places + at, tl.where(flat, 4, place).to(tl.uint8), mask=real)
        else:
            place = tl.load(places + at, mask=real, other=4)
            upper = tl.where(place == 0, a, tl.where(place == 1, b, 0.0))
            tl.store(outputs + at, tl.where(place == 2, c, tl.where(place == 3, d, upper)), mask=real)


@triton.jit(do_not_specialize=["count", "splits"])
def outer(
    rows, errors, places, weight, bias, count, splits,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, S: tl.constexpr, R: tl.constexpr, P: tl.constexpr, Q: tl.constexpr,
    SPAN: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """The gradient by weight and bias from pooled errors, summed over stretches of SPAN blocks of a UE's images."""
    tall: tl.constexpr = OH // 2
    wide: tl.constexpr = OW // 2
    ue = (tl.program_id(0) // splits).to(tl.int64)
    begin = tl.program_id(0) % splits * SPAN
    end = tl.minimum(begin + SPAN, count * (tall * wide))
    channel = tl.program_id(1)
    outs = tl.program_id(2) * TILE + tl.arange(0, TILE)
    sums = ()
    for _ in tl.static_range(KH * KW):
        sums = sums + (tl.zeros([TILE, BLOCK], ACC),)
    total = tl.zeros([TILE, BLOCK], ACC)
    for start in range(begin, end, BLOCK):
        number = start + tl.arange(0, BLOCK)
        inside = number < end
        image = number // (tall * wide)
        block = tl.max_contiguous(number % (tall * wide), 1)  # else reads are joined at the price of a barrier
        at = ((ue * count + image[None, :]) * O + outs[:, None]) * (tall * wide) + block[None, :]
        real = inside[None, :] & (outs < O)[:, None]
        error = tl.load(errors + at, mask=real, other=0.0).to(ACC)
        place = tl.load(places + at, mask=real, other=4)
        a = tl.where(place == 0, error, 0.0)
        b = tl.where(place == 1, error, 0.0)
        c = tl.where(place == 2, error, 0.0)
        d = tl.where(place == 3, error, 0.0)
        total += tl.where(place == 4, 0.0, error)
        plane = rows + ue * count * (C * H * W) + (image * C + channel) * (H * W)
        v = _inputs(plane, block // wide * (2 * S), block % wide * (2 * R), inside, H, W, KH + S, KW + R, P, Q, ACC)
        more = ()
        for i in tl.static_range(KH):
            for j in tl.static_range(KW):
                own = sums[i * KW + j]
                own += a * v[i * (KW + R) + j][None, :]
                own += b * v[i * (KW + R) + j + R][None, :]
                own += c * v[(i + S) * (KW + R) + j][None, :]
                own += d * v[(i + S) * (KW + R) + j + R][None, :]
                more = more + (own,)
        sums = more
    into = tl.program_id(0).to(tl.int64) * O + outs
    for tap in tl.static_range(KH * KW):
        tl.store(weight + (into * C + channel) * (KH * KW) + tap, tl.sum(sums[tap], 1), mask=outs < O)
    if channel == 0:
        tl.store(bias + into, tl.sum(total, 1), mask=outs < O)
