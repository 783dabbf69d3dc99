"""The functions of the library with sample arguments, and as kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang import types as t
from sim.core.lang.frontend.function import func
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Value
from sim.core.lang.ir.inline import inline_call
from sim.core.lang.library import LIBRARY
from sim.core.lang.library.transform import transform_set_rotation, transform_set_translation
from tools.library.rows import REAL, ROWS, VARIANTS, Row

ALL = [*ROWS.items(), *VARIANTS]
IDS = [f"{name}-{'-'.join(str(k.of(REAL[np.float32])) for k in row.kinds)}" for name, row in ALL]


@func
def product(a, b):
    """The operator *."""
    return a * b


@func
def moved(t, p, q):
    """The setters of a transformation."""
    transform_set_translation(t, p)
    transform_set_rotation(t, q)
    return t


FUNCTIONS = {**LIBRARY, "product": product, "moved": moved}


def sample(row: Row, dtype: Any, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    values = [k.sample(rng) for k in row.kinds]
    return [
        np.asarray(v, dtype) if isinstance(v, np.ndarray) else v if isinstance(v, int) else dtype(v) for v in values
    ]


def as_kernel(function: Func) -> Func:
    """A kernel that loads every parameter from an array of its own and stores every result to one."""
    results = [v.type for v in function.body.yields]
    arrays = [
        Value(t.array_type(kind), f"a{k}") for k, kind in enumerate([*(p.type for p in function.params), *results])
    ]
    body = Block(arrays)
    with Builder(body) as b:
        at = [b.tid(0)]
        args = [b.load(a, at, [0])[0] for a in arrays[: len(function.params)]]
        for a, value in zip(arrays[len(args) :], inline_call(b, function, args), strict=True):
            b.store(a, at, [0], [value])
    return Func(function.name, body)
