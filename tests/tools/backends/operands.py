"""Every scalar operation with operands for the tests of back ends."""

from __future__ import annotations

import zlib

import numpy as np

from sim.core.lang.ir.table import OPS, Libm
from sim.core.lang.types import SCALARS, Scalar, bool_

INEXACT = {n for n, r in OPS.items() if isinstance(r.llvm, Libm)} | set("exp log log2 log10 pow sin cos".split())
CASES = [(n, s) for n, r in OPS.items() for s in SCALARS if s.kind in r.accepts and r.result != "free"]
COUNT = 61


def edges(kind: Scalar) -> np.ndarray:
    if kind is bool_:
        return np.array([False, True])
    if kind.is_int:
        info = np.iinfo(kind.np)
        chosen = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7, kind.bits - 1, kind.bits]
        return np.array([kind.np.type(v) for v in chosen], kind.np)
    tiny = np.finfo(kind.np).smallest_subnormal
    large = np.finfo(kind.np).max
    return np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5, -2.5, large, tiny], kind.np)


def samples(name: str, kind: Scalar) -> list[np.ndarray]:
    """Operands: random ones, and for exact operations every pair of edge values."""
    row, rng = OPS[name], np.random.default_rng(zlib.crc32(f"{name} {kind}".encode()))
    if kind is bool_:
        columns = [rng.integers(0, 2, COUNT).astype(bool) for _ in range(row.arity)]
    elif kind.is_int:
        info = np.iinfo(kind.np)
        columns = [rng.integers(info.min, info.max, COUNT, dtype=kind.np, endpoint=True) for _ in range(row.arity)]
    else:
        columns = [rng.uniform(*row.domain, COUNT).astype(kind.np) for _ in range(row.arity)]
    if name not in INEXACT:
        extra = np.meshgrid(*[edges(kind)] * min(row.arity, 2))
        extra = [e.ravel() for e in extra] + [extra[0].ravel()] * (row.arity - 2)
        columns = [np.concatenate([c, e]) for c, e in zip(columns, extra, strict=True)]
    if name == "select":
        columns[0] = columns[0].astype(bool) if kind is not bool_ else columns[0]
    return columns
