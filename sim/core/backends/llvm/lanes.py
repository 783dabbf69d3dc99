"""Eight threads at a time: the body of a kernel on vectors, for kernels that gather and scatter.

LLVM vectorises loops over packed arrays well, and those are left to it.  Loads of small vectors at indices from memory
it turns into hardware gathers, which are slower than scalar code.  Here every thread's element is moved by one wide
load or two narrow stores, and eight of them are transposed in registers; arithmetic is on vectors of eight.

A value is *uniform* (the same in all lanes: a scalar), *counting* (an integer that grows by one from lane to lane),
*split* (eight scalars, for indices) or a *vector*.  Branches are computed on both sides and chosen from; their memory
operations go to a dummy where a lane has not taken them.  Results have the bits of the scalar body: arithmetic is lane
by lane, and accumulations at elements that lanes may share are put off to the end, where they are done thread after
thread in the order of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.core.backends.base import LANES, leaf_offsets
from sim.core.backends.llvm.lane_values import ALL, Counting, Lane, LaneVector, LaneWriter, Split, Uniform
from sim.core.backends.llvm.writer import literal, llvm_type, memory_type
from sim.core.lang.analysis.thread_locality import late_updates, suits_lanes
from sim.core.lang.ir.core import Block, Func, Op, Value, element_leaves, split_memory
from sim.core.lang.types import Scalar, bool_, size_of


class LaneEmitter(LaneWriter):
    """The lines of the body for threads `%linear` to `%linear + 7`: one basic block.  `%dummy`: memory for nothing.

    names: of the parameters, as the range function has them; strides: (array, axis) -> its bytes.
    """

    def __init__(self, func: Func, names: dict[Value, str], strides: dict[tuple[Value, int], str]) -> None:
        super().__init__()
        self.func, self.names, self.strides = func, names, strides
        self.late = late_updates(func)
        self.put_off: list[tuple[Op, list[Lane], list[tuple[Value, Lane]], tuple[str, ...] | None]] = []
        self.masks: list[str] = []
        self.rows: dict[tuple, list[str]] = {}

    def emit(self) -> list[str]:
        """The lines of the body."""
        for p in self.func.params:
            if isinstance(p.type, Scalar):
                self.values[p] = Uniform(self.names[p])
        self.block(self.func.body)
        self.finish_updates()
        return self.lines

    # -- operations
    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.is_primitive:
                self.values[op.results[0]] = self.primitive(op)
            elif op.name == "const":
                kind = op.results[0].type
                assert isinstance(kind, Scalar)
                self.values[op.results[0]] = Uniform(literal(op.attrs["value"], kind))
            elif op.name == "tid":
                self.values[op.results[0]] = Counting(self.let("trunc nsw i64 %linear to i32"))
            elif op.name == "shape":
                extent = f"{self.names[op.operands[0]]}.n{op.axis}"
                self.values[op.results[0]] = Uniform(self.let(f"trunc nsw i64 {extent} to i32"))
            elif op.name == "if":
                self.choice(op)
            elif op.name == "load":
                self.load(op)
            elif op.name == "store":
                self.store(op, [(v, self.of(v)) for v in split_memory(op)[3]])
            else:
                self.update(op)

    def choice(self, op: Op) -> None:
        """Both sides, then a selection."""
        cond = self.of(op.operands[0])
        test = self.vector(op.operands[0], cond)
        other = self.let(f"xor <{LANES} x i1> {test}, splat (i1 true)")
        for region, mask in zip(op.regions, (test, other), strict=True):
            outer = self.masks[-1] if self.masks else None
            self.masks.append(mask if outer is None else self.let(f"and <{LANES} x i1> {outer}, {mask}"))
            self.block(region)
            self.masks.pop()
        for result, a, b in zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True):
            kind = llvm_type(result.type)
            left, right = self.of(a), self.of(b)
            if isinstance(cond, Uniform) and isinstance(left, Uniform) and isinstance(right, Uniform):
                self.values[result] = Uniform(
                    self.let(f"select i1 {cond.name}, {kind} {left.name}, {kind} {right.name}")
                )
            else:
                t = f"<{LANES} x {kind}>"
                chosen = f"select <{LANES} x i1> {test}, {t} {self.vector(a, left)}, {t} {self.vector(b, right)}"
                self.values[result] = LaneVector(self.let(chosen))

    # -- places
    def wide_index(self, name: str) -> str:
        return self.let(f"sext i32 {name} to i64") if name.startswith("%") else name

    def index64(self, value: Value, name: str) -> str:
        kind = value.type
        assert isinstance(kind, Scalar)
        if kind.bits == 64 or not name.startswith("%"):
            return name
        return self.let(f"{'sext' if kind.kind == 'i' else 'zext'} {llvm_type(kind)} {name} to i64")

    def address(self, op: Op, index: Sequence[tuple[Value, str]]) -> str:
        """Where an element begins."""
        at = self.names[op.operands[0]]
        for axis, (value, name) in enumerate(index):
            offset = self.let(f"mul nsw i64 {self.index64(value, name)}, {self.strides[op.operands[0], axis]}")
            at = self.let(f"getelementptr inbounds i8, ptr {at}, i64 {offset}")
        return at

    def shifted(self, at: str, offset: int) -> str:
        return self.let(f"getelementptr inbounds i8, ptr {at}, i64 {offset}") if offset else at

    def places(self, op: Op) -> list[str]:
        """Where the elements of the lanes begin; those of lanes that do not take part are the dummy."""
        _, values, _, _ = split_memory(op)
        key = (op.operands[0], *values, self.masks[-1] if self.masks else "")
        known = self.rows.get(key)
        if known is None:
            known = self.side_by_side(op, values) or self.each_place(op, values)
            if self.masks:
                known = [
                    self.let(f"select i1 {m}, ptr {p}, ptr %dummy")
                    for m, p in zip(self.taken("i1", self.masks[-1]), known, strict=True)
                ]
            self.rows[key] = known
        return known

    def each_place(self, op: Op, values: Sequence[Value]) -> list[str]:
        columns = [self.split(v) for v in values]
        return [self.address(op, [(v, c[k]) for v, c in zip(values, columns, strict=True)]) for k in ALL]

    def side_by_side(self, op: Op, values: Sequence[Value]) -> list[str] | None:
        """The places where one index counts the lanes and the others are the same in all, at a known distance."""
        lanes = [self.of(v) for v in values]
        counting = [axis for axis, lane in enumerate(lanes) if isinstance(lane, Counting)]
        stride = self.strides[op.operands[0], counting[0]] if len(counting) == 1 else ""
        if not stride.isdecimal() or any(not isinstance(a, Uniform | Counting) for a in lanes):
            return None
        first = self.first_place(op)
        return [self.shifted(first, k * int(stride)) for k in ALL]

    @staticmethod
    def leaves(op: Op) -> tuple[list[Scalar], tuple[int, ...]]:
        """Types and byte offsets of the leaves that an operation moves."""
        every = element_leaves(op.operands[0])
        return [every[k].scalar for k in op.leaves], leaf_offsets(op)

    def shape_of(self, op: Op) -> str:
        """How the elements of the lanes lie: "one" for all, "row" (side by side, nothing between), or "rows"."""
        array, values, _, _ = split_memory(op)
        lanes = [self.of(v) for v in values]
        if all(isinstance(a, Uniform) for a in lanes):
            return "one"
        kinds, offsets = self.leaves(op)
        element = size_of(array.type.dtype)  # type: ignore[attr-defined]
        full = (
            len({id(k) for k in kinds}) == 1
            and offsets[0] == 0
            and len(kinds) * kinds[0].size == element
            and kinds[0] is not bool_
        )
        last = self.strides[array, len(values) - 1] == str(element)
        counts = isinstance(lanes[-1], Counting) and all(isinstance(a, Uniform) for a in lanes[:-1])
        return "row" if full and last and counts and len(kinds) <= 4 else "rows"

    def bundles(self, op: Op) -> list[tuple[int, int, Scalar, int]]:
        """The leaves in runs that are moved at once: (first, number, type, byte offset), at most four side by side."""
        kinds, offsets = self.leaves(op)
        out: list[tuple[int, int, Scalar, int]] = []
        for k, (kind, offset) in enumerate(zip(kinds, offsets, strict=True)):
            if out and kind.is_float and kind.bits >= 32:
                first, count, same, begin = out[-1]
                if count < 4 and kind is same and offset == begin + count * kind.size:
                    out[-1] = first, count + 1, kind, begin
                    continue
            out.append((k, 1, kind, offset))
        return out

    # -- loads
    def load(self, op: Op) -> None:
        for result, lane in zip(op.results, self.loaded(op), strict=True):
            self.values[result] = lane

    def loaded(self, op: Op) -> list[Lane]:
        kinds, offsets = self.leaves(op)
        how = self.shape_of(op)
        if how == "one":
            _, values, _, _ = split_memory(op)
            at = self.address(op, [(v, self.of(v).name) for v in values])  # type: ignore[union-attr]
            if self.masks:
                some = self.let(f"call i1 @llvm.vector.reduce.or.v{LANES}i1(<{LANES} x i1> {self.masks[-1]})")
                self.declared["reduce"] = f"declare i1 @llvm.vector.reduce.or.v{LANES}i1(<{LANES} x i1>)"
                at = self.let(f"select i1 {some}, ptr {at}, ptr %dummy")
            return [Uniform(self.load_one(self.shifted(at, o), k)) for k, o in zip(kinds, offsets, strict=True)]
        if how == "row":
            return [LaneVector(name) for name in self.load_row(op, kinds[0], len(kinds))]
        places = self.places(op)
        out: list[Lane] = []
        for _, count, kind, offset in self.bundles(op):
            if count > 1:
                out += [LaneVector(name) for name in self.load_rows(op, places, kind, count, offset)]
                continue
            scalars = tuple(self.load_one(self.shifted(p, offset), kind) for p in places)
            out.append(Split(scalars) if kind.is_int else LaneVector(self.gathered(llvm_type(kind), scalars)))
        return out

    def load_one(self, place: str, kind: Scalar) -> str:
        raw = self.let(f"load {memory_type(kind)}, ptr {place}, align {kind.size}")
        return self.let(f"icmp ne i8 {raw}, 0") if kind is bool_ else raw

    def first_place(self, op: Op) -> str:
        """Where the row of the lanes begins."""
        _, values, _, _ = split_memory(op)
        lanes = [self.of(v) for v in values]
        first = [a.first if isinstance(a, Counting) else a.name for a in lanes]  # type: ignore[union-attr]
        return self.address(op, list(zip(values, first, strict=True)))

    def load_row(self, op: Op, kind: Scalar, count: int) -> list[str]:
        n, t = LANES * count, llvm_type(kind)
        at = self.first_place(op)
        if self.masks:
            name = f"llvm.masked.load.v{n}{self.suffix(kind)}.p0"
            self.declared[name] = f"declare <{n} x {t}> @{name}(ptr, <{n} x i1>, <{n} x {t}>)"
            whole = self.let(
                f"call <{n} x {t}> @{name}(ptr align {kind.size} {at}, <{n} x i1> {self.wide_mask(count)}, <{n} x {t}>"
                " zeroinitializer)"
            )
        else:
            whole = self.let(f"load <{n} x {t}>, ptr {at}, align {kind.size}")
        if count == 1:
            return [whole]
        return [self.shuffle(t, n, whole, "poison", [k * count + c for k in ALL]) for c in range(count)]

    def wide_mask(self, count: int) -> str:
        """The mask of the lanes, for `count` neighbours of each."""
        if count == 1:
            return self.masks[-1]
        return self.shuffle("i1", LANES, self.masks[-1], "poison", [k for k in ALL for _ in range(count)])

    def load_rows(self, op: Op, places: Sequence[str], kind: Scalar, count: int, offset: int) -> list[str]:
        """Elements of two to four floats at the places: one load each, then transposed."""
        t = llvm_type(kind)
        rows = []
        for place in places:
            at = self.shifted(place, offset)
            if count == 4 or (count == 3 and self.spare(op)):
                rows.append(self.let(f"load <4 x {t}>, ptr {at}, align {kind.size}"))
                continue
            pair = self.let(f"load <2 x {t}>, ptr {at}, align {kind.size}")
            row = self.shuffle(t, 2, pair, "poison", [0, 1, -1, -1])
            if count == 3:
                third = self.load_one(self.shifted(at, 2 * kind.size), kind)
                row = self.let(f"insertelement <4 x {t}> {row}, {t} {third}, i64 2")
            rows.append(row)
        joined = [self.shuffle(t, 4, rows[k], rows[k + 4], range(8)) for k in range(4)]
        return self.transposed(t, joined)[:count]

    def spare(self, op: Op) -> bool:
        """May a load touch what lies behind an element?"""
        return not any(self.func.params[k] is op.operands[0] for k in self.func.attrs.get("tight", ()))

    # -- stores
    def store(self, op: Op, values: Sequence[tuple[Value, Lane]]) -> None:
        kinds, offsets = self.leaves(op)
        how = self.shape_of(op)
        if how == "row":
            self.store_row(op, kinds[0], [self.vector(v, a) for v, a in values])
            return
        places = self.places(op)
        for first, count, kind, offset in self.bundles(op):
            run = values[first : first + count]
            if count > 1 and how == "rows":
                self.store_rows(places, kind, count, offset, [self.vector(v, a) for v, a in run])
                continue
            for k, (v, a) in enumerate(run):
                for place, value in zip(places, self.split(v, a), strict=True):
                    self.store_one(self.shifted(place, offset + k * kind.size), kind, value)

    def store_one(self, place: str, kind: Scalar, value: str) -> None:
        if kind is bool_:
            value = self.let(f"zext i1 {value} to i8")
        self.put(f"store {memory_type(kind)} {value}, ptr {place}, align {kind.size}")

    def store_row(self, op: Op, kind: Scalar, vectors: Sequence[str]) -> None:
        count = len(vectors)
        n, t = LANES * count, llvm_type(kind)
        at = self.first_place(op)
        whole = vectors[0]
        if count > 1:
            padded = [*vectors, *["poison"] * (4 - count)]
            pairs = [self.shuffle(t, LANES, padded[k], padded[k + 1], range(2 * LANES)) for k in (0, 2)]
            whole = self.shuffle(t, 2 * LANES, pairs[0], pairs[1], [c * LANES + k for k in ALL for c in range(count)])
        if self.masks:
            name = f"llvm.masked.store.v{n}{self.suffix(kind)}.p0"
            self.declared[name] = f"declare void @{name}(<{n} x {t}>, ptr, <{n} x i1>)"
            self.put(
                f"call void @{name}(<{n} x {t}> {whole}, ptr align {kind.size} {at}, <{n} x i1>"
                f" {self.wide_mask(count)})"
            )
        else:
            self.put(f"store <{n} x {t}> {whole}, ptr {at}, align {kind.size}")

    def store_rows(self, places: Sequence[str], kind: Scalar, count: int, offset: int, vectors: Sequence[str]) -> None:
        t = llvm_type(kind)
        rows = self.transposed(t, [*vectors, *["poison"] * (4 - count)])
        for lane in ALL:
            at, half = self.shifted(places[lane], offset), 4 * (lane // 4)
            if count == 4:
                row = self.shuffle(t, LANES, rows[lane % 4], "poison", range(half, half + 4))
                self.put(f"store <4 x {t}> {row}, ptr {at}, align {kind.size}")
                continue
            pair = self.shuffle(t, LANES, rows[lane % 4], "poison", range(half, half + 2))
            self.put(f"store <2 x {t}> {pair}, ptr {at}, align {kind.size}")
            if count == 3:
                third = self.let(f"extractelement <{LANES} x {t}> {rows[lane % 4]}, i64 {half + 2}")
                self.put(f"store {t} {third}, ptr {self.shifted(at, 2 * kind.size)}, align {kind.size}")

    # -- accumulations
    def update(self, op: Op) -> None:
        _, index, _, values = split_memory(op)
        if op in self.late:
            mask = self.taken("i1", self.masks[-1]) if self.masks else None
            self.put_off.append((op, [self.of(v) for v in index], [(v, self.of(v)) for v in values], mask))
            return
        kinds, _ = self.leaves(op)
        sums: list[tuple[Value, Lane]] = []
        before = [self.vector(v, a) for v, a in zip(values, self.loaded(op), strict=True)]
        added = [self.vector(v) for v in values]
        self.lanes = LANES
        for kind, value, a, b in zip(kinds, values, before, added, strict=True):
            sums.append((value, LaneVector(self.arithmetic("add", kind, [a, b]))))
        self.lanes = 1
        self.store(op, sums)

    def finish_updates(self) -> None:
        """The accumulations that were put off: thread after thread, those of one thread in the order of the program."""
        places: dict[Value, set[tuple]] = {}
        for op, index, _, _ in self.put_off:
            places.setdefault(op.operands[0], set()).add((*index, op.leaves))
        alone = self.func.attrs.get("apart") or len(places) == 1
        summed = [
            a
            for a, where in places.items()
            if alone and len(where) == 1 and all(isinstance(i, Uniform) for i in next(iter(where))[:-1])
        ]
        for array in summed:
            self.sum_up([entry for entry in self.put_off if entry[0].operands[0] == array])
        for lane in ALL:
            for op, index, values, mask in self.put_off:
                if op.operands[0] not in summed:
                    self.update_one(op, lane, index, values, mask)

    def sum_up(
        self, entries: Sequence[tuple[Op, list[Lane], list[tuple[Value, Lane]], tuple[str, ...] | None]]
    ) -> None:
        """Accumulations at one and the same element: it stays in registers meanwhile."""
        first, index, _, _ = entries[0]
        at = self.address(first, [(v, a.name) for v, a in zip(split_memory(first)[1], index, strict=True)])  # type: ignore[union-attr]
        kinds, offsets = self.leaves(first)
        sums = [self.load_one(self.shifted(at, o), k) for k, o in zip(kinds, offsets, strict=True)]
        for lane in ALL:
            for _, _, values, mask in entries:
                for k, (kind, (value, given)) in enumerate(zip(kinds, values, strict=True)):
                    more = self.arithmetic("add", kind, [sums[k], self.split(value, given)[lane]])
                    t = llvm_type(kind)
                    sums[k] = more if mask is None else self.let(f"select i1 {mask[lane]}, {t} {more}, {t} {sums[k]}")
        for total, kind, offset in zip(sums, kinds, offsets, strict=True):
            self.store_one(self.shifted(at, offset), kind, total)

    def update_one(
        self,
        op: Op,
        lane: int,
        index: Sequence[Lane],
        values: Sequence[tuple[Value, Lane]],
        mask: tuple[str, ...] | None,
    ) -> None:
        """An accumulation of one thread."""
        _, at_values, _, _ = split_memory(op)
        at = self.address(op, [(v, self.split(v, a)[lane]) for v, a in zip(at_values, index, strict=True)])
        if mask is not None:
            at = self.let(f"select i1 {mask[lane]}, ptr {at}, ptr %dummy")
        kinds, offsets = self.leaves(op)
        for kind, offset, (value, given) in zip(kinds, offsets, values, strict=True):
            place = self.shifted(at, offset)
            self.store_one(
                place, kind, self.arithmetic("add", kind, [self.load_one(place, kind), self.split(value, given)[lane]])
            )


def dummy_bytes(func: Func) -> int:
    """Bytes of the dummy: it must hold the largest element that a kernel touches, and what wide loads see behind it."""
    sizes = [size_of(p.type.dtype) for p in func.params if hasattr(p.type, "dtype")]
    return max(256, 2 * max(sizes, default=0))


def lanes_of(
    func: Func, names: dict[Value, str], strides: dict[tuple[Value, int], str]
) -> tuple[list[str], dict[str, str]] | None:
    """The lines of the body for eight threads, and declarations; None where one by one is better or the only way."""
    if not suits_lanes(func):
        return None
    emitter = LaneEmitter(func, names, strides)
    return emitter.emit(), {**emitter.declared, "memset": "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"}
