"""The text of a function."""

from __future__ import annotations

from sim.core.lang.ir.core import Block, Func, Value


def to_text(func: Func, spans: bool = False) -> str:
    """Readable, deterministic text: the identity of a function (cache keys), golden tests, `show-ir`."""
    numbers: dict[Value, str] = {}
    lines: list[str] = []

    def ref(v: Value) -> str:
        if v not in numbers:
            numbers[v] = f"%{len(numbers)}"
        return numbers[v]

    def typed(v: Value) -> str:
        return f"{ref(v)}: {v.type}"

    def block(b: Block, indent: str) -> None:
        for op in b.ops:
            if op.name == "const":
                lines.append(f"{indent}{typed(op.results[0])} = const {op.attrs['value']!r}")
                continue
            left = ", ".join(typed(r) for r in op.results)
            attrs = {k: v for k, v in op.attrs.items() if k not in ("callee", "vjp", "separated", "guard")}
            right = " ".join([op.name, ", ".join(ref(v) for v in op.operands), str(attrs) if attrs else ""]).rstrip()
            where = f"   ; line {op.span.line}" if spans and op.span else ""
            lines.append(f"{indent}{left} = {right}{where}" if left else f"{indent}{right}{where}")
            if "callee" in op.attrs:
                lines.append(indent + "  " + to_text(op.callee).replace("\n", "\n" + indent + "  "))
            for region in op.regions:
                lines.append(f"{indent}  ({', '.join(typed(p) for p in region.params)})")
                block(region, indent + "    ")
                lines.append(f"{indent}    yield {', '.join(ref(v) for v in region.yields)}")

    params = ", ".join(f"{typed(p)} '{p.name}'" for p in func.params)
    lines.append(f"func {func.name}({params}) dims={func.dims}")
    block(func.body, "  ")
    if func.body.yields:
        lines.append("  return " + ", ".join(ref(v) for v in func.body.yields))
    return "\n".join(lines)
