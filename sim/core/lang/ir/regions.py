"""How values go around operations with regions."""

from __future__ import annotations

from sim.core.lang.ir.core import Block, Op, Value


def flow(op: Op) -> list[tuple[Value, list[Value]]]:
    """(result or region parameter, the values that it may take) of an operation with regions."""
    if op.name == "if":
        return [(r, [a, b]) for r, a, b in zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True)]
    body = op.regions[-1]
    start = op.first_carried
    edges = []
    for j, (result, end) in enumerate(zip(op.results, body.yields, strict=True)):
        sources = [op.operands[start + j], end]
        edges.append((result, sources))
        edges += [(region.params[start + j], sources) for region in op.regions]
    return edges


def control(op: Op) -> list[Value]:
    """Values that decide which regions run, and how often."""
    return [op.regions[0].yields[0]] if op.name == "while" else op.operands[:1]


def free_values(op: Op) -> list[Value]:
    """Values used inside the regions of `op` but defined outside, in order of first use."""
    found: dict[Value, None] = {}

    def visit(block: Block, defined: set[Value]) -> None:
        defined = defined | set(block.params)
        for inner in block.ops:
            found.update((v, None) for v in inner.operands if v not in defined)
            for region in inner.regions:
                visit(region, defined)
            defined.update(inner.results)
        found.update((v, None) for v in block.yields if v not in defined)

    for region in op.regions:
        visit(region, set())
    return list(found)
