"""What the threads of a launch can have in common, read off the IR: which accumulations need atomics.

An accumulation needs none where the launch promises that nobody else touches the element (`exclusive`), or where the index
is provably different for every thread and the kernel writes to that array nowhere else.
"""

from __future__ import annotations

from sim.core.lang.ir import OPS, Func, Op, Value, split_memory, walk
from sim.core.lang.passes import WRITES


def is_uniform(value: Value, params: frozenset[Value]) -> bool:
    """Whether a value is the same in all threads: made of constants, scalar arguments and shapes only."""
    op = value.op
    if op is None:
        return value in params
    if op.name in ("const", "shape"):
        return True
    return op.name in OPS and all(is_uniform(v, params) for v in op.operands)


def _axes(value: Value, params: frozenset[Value]) -> frozenset[int]:
    """Axes of the thread index that an index tells apart: `tid()`, or that shifted by the same amount in all threads."""
    op = value.op
    if op is not None and op.name == "tid":
        return frozenset([op.attrs["axis"]])
    if op is not None and op.name in ("add", "sub") and is_uniform(op.operands[1], params):
        return _axes(op.operands[0], params)
    if op is not None and op.name == "add" and is_uniform(op.operands[0], params):
        return _axes(op.operands[1], params)
    return frozenset()


def _key(value: Value) -> object:
    """Equal for two index values that are computed alike."""
    op = value.op
    if op is None:
        return value
    if op.name in OPS or op.name in ("const", "tid", "shape"):
        return (op.name, value.type, *(sorted(op.attrs.items())), *map(_key, op.operands))
    return value


def own_arrays(func: Func) -> frozenset[Value]:
    """Array parameters that every thread writes only at an index of its own, the same one everywhere."""
    params = frozenset(func.params)
    places: dict[Value, set[object]] = {}
    for op in walk(func.body):
        if op.name not in WRITES:
            continue
        array, index, _, _ = split_memory(op)
        axes = frozenset().union(*(_axes(i, params) for i in index))
        alone = -1 in axes or axes >= frozenset(range(func.dims))
        places.setdefault(array, set()).add(tuple(map(_key, index)) if alone else op)
    return frozenset(a for a, found in places.items() if len(found) == 1 and not any(isinstance(p, Op) for p in found))


def shared_arrays(func: Func, own: frozenset[Value]) -> frozenset[Value]:
    """Array parameters to which several threads may add at one index."""
    promised = func.attrs.get("exclusive", ())
    return frozenset(
        op.operands[0] for op in walk(func.body)
        if op.name in ("accum", "atomic") and needs_atomics(op, own) and op.operands[0].name not in promised
    )


def needs_atomics(op: Op, own: frozenset[Value]) -> bool:
    """Whether an accumulation may meet another thread at its element."""
    return not op.attrs.get("exclusive") and op.operands[0] not in own
