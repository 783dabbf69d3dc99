"""A tape as a graph: arrays and the launches, copies and fills between them, as DOT text or as a page for a browser."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from sim.core.lang.ir.core import walk
from sim.core.runtime.arrays.array import array
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.tape.launch_records import LaunchRecord
from sim.core.runtime.tape.records import Probe, TapeRecord, WriteRecord
from sim.core.runtime.tape.scopes import Scopes


@dataclass
class TapeNode:
    """A box: a version of an array ("array") or an operation ("launch", "write"); `title`: the mark before it."""

    kind: str
    text: list[str]
    level: int = 0
    title: str = ""
    buffer: Buffer | None = None
    bold: bool = False


@dataclass
class TapeGraph:
    """Nodes in program order, and edges (from, to) by node number.

    Every write of an array makes a new node for it, so the graph has no cycles.
    """

    nodes: list[TapeNode] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        records: Sequence[TapeRecord],
        names: Mapping[array, str],
        scopes: Scopes | None = None,
        simplify: bool = False,
        only_written: bool = False,
    ) -> TapeGraph:
        """The graph of the records of a tape; `names` label arrays (views of one allocation are one node).

        simplify: one node for launches in a row that are the same.  only_written: without arrays that nothing writes.
        """
        graph = cls()
        labels = {a.buffer: name for a, name in names.items()}
        current: dict[Buffer, int] = {}
        versions: dict[Buffer, int] = {}
        written = {a.buffer for record in records for a in _writes(record)}

        def node_of(a: array, fresh: bool) -> int:
            known = current.get(a.buffer)
            if known is not None and not fresh:
                return known
            number = versions[a.buffer] = versions.get(a.buffer, -1) + 1
            label = labels.setdefault(a.buffer, f"array {len(labels) + 1}")
            text = [label + (f" (version {number + 1})" if number else ""), f"{a.dtype} {a.shape}"]
            text += ["gradient"] if a.requires_grad else []
            graph.nodes.append(TapeNode("array", text, buffer=a.buffer))
            current[a.buffer] = len(graph.nodes) - 1
            return current[a.buffer]

        place = ""
        for k, record in enumerate(records):
            if isinstance(record, Probe):
                place = record.name
                continue
            if simplify and k and _same_launch(records[k - 1], record):
                continue
            sources = [node_of(a, False) for a in _reads(record) if not only_written or a.buffer in written]
            at = len(graph.nodes)
            node = _operation(record, place)
            count = _repeats(records[k:]) if simplify else 1
            node.text += [f"repeated {count}x"] if count > 1 else []
            inside = scopes.around(k) if scopes else []
            node.text += [f"in {' / '.join(inside)}"] if inside else []
            graph.nodes.append(node)
            graph.edges += [(s, at) for s in dict.fromkeys(sources)]
            for a in {w.buffer: w for w in _writes(record)}.values():
                graph.edges.append((at, node_of(a, True)))
        graph._levels()
        return graph

    def _levels(self) -> None:
        """The longest way from a start to each node; nodes stand in an order in which edges go forward."""
        for source, target in sorted(self.edges, key=lambda e: e[1]):
            self.nodes[target].level = max(self.nodes[target].level, self.nodes[source].level + 1)

    def track(self, inputs: Sequence[array], outputs: Sequence[array]) -> None:
        """Makes bold what lies on the ways from some arrays to others; none given: from, or to, anything."""
        if not (inputs or outputs):
            return
        order = sorted(self.edges, key=lambda e: e[1])
        ahead = self._reached(inputs, order)
        behind = self._reached(outputs, [(b, a) for a, b in reversed(order)])
        for number in ahead & behind:
            self.nodes[number].bold = True

    def _reached(self, arrays: Sequence[array], edges: Sequence[tuple[int, int]]) -> set[int]:
        starts = {a.buffer for a in arrays}
        found = {k for k, node in enumerate(self.nodes) if not starts or node.buffer in starts}
        for a, b in edges:
            if a in found:
                found.add(b)
        return found

    def dot(self, direction: str = "LR") -> str:
        """The graph in the language of Graphviz."""
        shapes = {"array": "ellipse", "launch": "box", "write": "box, style=dashed"}
        lines = ["digraph tape {", f"  rankdir={direction};", '  node [fontname="sans-serif", fontsize=10];']
        for k, node in enumerate(self.nodes):
            text = "\\n".join(part.replace("\\", "\\\\").replace('"', '\\"') for part in node.text)
            lines.append(f'  n{k} [label="{text}", shape={shapes[node.kind]}{", penwidth=3" if node.bold else ""}];')
        lines += [f"  n{a} -> n{b};" for a, b in self.edges]
        return "\n".join([*lines, "}"]) + "\n"

    def page(self) -> str:
        """The graph as a page of its own: columns by distance from the start, nothing to install."""
        width, height, rows = 190, 64, dict[int, int]()
        spots = []
        for node in self.nodes:
            row = rows.get(node.level, 0)
            rows[node.level] = row + 1
            spots.append((20 + node.level * (width + 50), 20 + row * (height + 16)))
        size = (40 + (max(rows, default=0) + 1) * (width + 50), 40 + max(rows.values(), default=0) * (height + 16))
        parts = []
        for a, b in self.edges:
            x, y, u, v = spots[a][0] + width, spots[a][1] + height / 2, spots[b][0], spots[b][1] + height / 2
            parts.append(f'<path d="M{x} {y} C{x + 30} {y} {u - 30} {v} {u} {v}"/>')
        for node, (x, y) in zip(self.nodes, spots, strict=True):
            lines = "".join(f'<tspan x="{x + width / 2}" dy="{15}">{html.escape(part)}</tspan>' for part in node.text)
            title = f"<title>{html.escape(node.title)}</title>" if node.title else ""
            corner = height / 2 if node.kind == "array" else 3
            width_of_line = ' stroke-width="3"' if node.bold else ""
            box = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{corner}"{width_of_line}/>'
            parts.append(f'<g class="{node.kind}">{title}{box}<text y="{y + 6}">{lines}</text></g>')
        style = (
            "body{margin:0;font:12px sans-serif}path{fill:none;stroke:#888}rect{fill:#fff;stroke:#444}.launch"
            " rect{fill:#dbeafe}.write rect{fill:#f3f4f6;stroke-dasharray:4}.array"
            " rect{fill:#fef9c3}text{text-anchor:middle}"
        )
        body = "\n".join(parts)
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>tape</title><style>{style}</style>\n'
            f'<svg width="{size[0]}" height="{size[1]}" xmlns="http://www.w3.org/2000/svg">\n{body}\n</svg></html>\n'
        )


def _same_launch(a: TapeRecord, b: TapeRecord) -> bool:
    """Whether two launches are the same but for the content of arrays."""
    if not (isinstance(a, LaunchRecord) and isinstance(b, LaunchRecord)):
        return False
    one, other = a.call, b.call
    return one.spec is other.spec and one.dims == other.dims and all(map(_alike, one.args, other.args))


def _alike(a: object, b: object) -> bool:
    if isinstance(a, array) and isinstance(b, array):
        return a.ptr == b.ptr and a.shape == b.shape and a.strides == b.strides
    return a is b or (not isinstance(a, array) and not isinstance(b, array) and a == b)


def _repeats(records: Sequence[TapeRecord]) -> int:
    """How often the first one comes in a row."""
    return sum(1 for _ in takewhile(lambda r: r is records[0] or _same_launch(records[0], r), records))


def _operation(record: TapeRecord, place: str) -> TapeNode:
    if isinstance(record, LaunchRecord):
        call = record.call
        return TapeNode("launch", [call.spec.kernel.name, "dim " + " x ".join(map(str, call.dims))], title=place)
    return TapeNode("write", [str(record)], title=place)


def _reads(record: TapeRecord) -> Iterable[array]:
    """What it reads; a launch also reads what it adds to."""
    if isinstance(record, WriteRecord):
        return record.operation.reads
    if not isinstance(record, LaunchRecord):
        return record.arrays
    call, params = record.call, record.call.spec.func.params
    added = {op.operands[0] for op in walk(call.spec.func.body) if op.name in ("accum", "atomic")}
    numbers = (k for k in range(len(params)) if k in call.spec.reads or params[k] in added)
    return [a for k in numbers if isinstance(a := call.args[k], array)]


def _writes(record: TapeRecord) -> Iterable[array]:
    return record.writes if isinstance(record, (LaunchRecord, WriteRecord)) else record.arrays
