"""Memory of eight threads at a time: where their elements lie, and how they are moved."""

from __future__ import annotations

from collections.abc import Sequence

from sim.core.backends.base import LANES, leaf_offsets
from sim.core.backends.llvm.lane_values import ALL, Counting, InRows, Lane, LaneVector, LaneWriter, Split, Uniform
from sim.core.backends.llvm.machine_code.toolchain import has_few_registers
from sim.core.backends.llvm.writer import literal, llvm_type, memory_type
from sim.core.lang.analysis.thread_locality import injective_axes, uniform_values
from sim.core.lang.ir.core import Func, Op, Value, element_leaves, split_memory, walk
from sim.core.lang.types import Scalar, bool_, size_of

Sums = list[tuple[Value, Value | None]]
"""Of numbers side by side, what was there and what is added to it; None for nothing."""

_WIDEST = 32
"""Bytes of the widest vector that is added to memory at once: registers of x86 since AVX."""
_AHEAD = 1 << 16
"""Bytes at most from where a cache is written to where it is asked for: what a second-level cache has room for."""


class LaneMemory(LaneWriter):
    """Loads and stores for threads `%linear` to `%linear + 7`.  `%dummy`: memory for nothing.

    names: of the parameters, as the range function has them; strides: (array, axis) -> its bytes.
    sums_in_rows: whether what is stored as a sum of what was there is added to it there, instead.
    """

    sums_in_rows = False

    def __init__(self, func: Func, names: dict[Value, str], strides: dict[tuple[Value, int], str]) -> None:
        super().__init__()
        self.func, self.names, self.strides = func, names, strides
        self.masks: list[str] = []
        self.always = 0
        """How many of the masks are those of all: then a lane at least takes part."""
        self.rows: dict[tuple, list[str]] = {}
        self.beside = injective_axes(func).keys() | uniform_values(func)
        """Indices by which lanes find the same element, or elements at equal distances."""
        self.made_by = {result: op for op in walk(func.body) for result in op.results}
        self.turn = {op: k for k, op in enumerate(walk(func.body))}

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

    def is_scattered(self, op: Op) -> bool:
        return any(v not in self.beside for v in split_memory(op)[1])

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
            if len(self.masks) > self.always:
                at = self.let(f"select i1 {self.any_of(self.masks[-1])}, ptr {at}, ptr %dummy")
            return [Uniform(self.load_one(self.shifted(at, o), k)) for k, o in zip(kinds, offsets, strict=True)]
        if how == "row":
            return [LaneVector(name) for name in self.load_row(op, kinds[0], len(kinds))]
        places = self.places(op)
        out: list[Lane] = []
        for first, count, kind, offset in self.bundles(op):
            if count > 2 and self.in_rows.issuperset(op.results[first : first + min(count, 3)]):
                rows = tuple(self.joined_rows(op, places, kind, count, offset))
                out += [InRows(rows, part) for part in range(count)]
                continue
            if count > 1:
                out += [LaneVector(name) for name in self.load_rows(op, places, kind, count, offset)]
                continue
            scalars = tuple(self.load_one(self.shifted(p, offset), kind) for p in places)
            out.append(Split(scalars) if kind.is_int else LaneVector(self.gathered(llvm_type(kind), scalars)))
        return out

    def any_of(self, mask: str) -> str:
        """Whether a lane takes part."""
        self.declared["reduce"] = f"declare i1 @llvm.vector.reduce.or.v{LANES}i1(<{LANES} x i1>)"
        return self.let(f"call i1 @llvm.vector.reduce.or.v{LANES}i1(<{LANES} x i1> {mask})")

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
        elif self.in_threes(kind, count):
            quarters = [
                self.let(f"load <4 x {t}>, ptr {self.shifted(at, 16 * k)}, align {kind.size}") for k in range(6)
            ]
            return self.three_of_many(t, [self.shuffle(t, 4, quarters[k], quarters[k + 3], range(8)) for k in range(3)])
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
        """Elements of two to four floats at the places, transposed."""
        return self.transposed(llvm_type(kind), self.joined_rows(op, places, kind, count, offset))[:count]

    def joined_rows(self, op: Op, places: Sequence[str], kind: Scalar, count: int, offset: int) -> list[str]:
        """Elements of two to four floats at the places: one load each, two of them side by side."""
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
        return [self.shuffle(t, 4, rows[k], rows[k + 4], range(8)) for k in range(4)]

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
            sums = self.added_to_old(op, first, count) if self.sums_in_rows and count > 1 else None
            if sums is not None and self.add_to_old(places, kind, offset, sums):
                continue
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
        if self.in_threes(kind, count):
            for offset, quarter in self.many_of_three(t, vectors):
                self.put(f"store <4 x {t}> {quarter}, ptr {self.shifted(at, offset)}, align {kind.size}")
            return
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
            if op.operands[0].name in self.func.attrs.get("caches", ()):
                self.ask_ahead(op, at)

    def ask_ahead(self, op: Op, at: str) -> None:
        """Asks for the place, to write there, that the next launch will come to when it is as far as this one.

        What launches cache lies one behind the other, each slot a stream of its own: of these many beginnings the
        processor learns too late, and what it has not asked for makes stores wait.
        """
        array = self.names[op.operands[0]]
        size = self.let(f"mul nsw i64 {array}.n0, {self.strides[op.operands[0], 0]}")
        self.declared["umin"] = "declare i64 @llvm.umin.i64(i64, i64)"
        self.declared["prefetch"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        ahead = self.let(f"call i64 @llvm.umin.i64(i64 {size}, i64 {_AHEAD})")
        place = self.let(f"getelementptr i8, ptr {at}, i64 {ahead}")
        self.put(f"call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")

    def store_rows(self, places: Sequence[str], kind: Scalar, count: int, offset: int, vectors: Sequence[str]) -> None:
        self.put_rows(places, kind, count, offset, self.rows_of(llvm_type(kind), vectors))

    def put_rows(self, places: Sequence[str], kind: Scalar, count: int, offset: int, rows: Sequence[str]) -> None:
        """Stores a row of so many numbers for every lane."""
        t = llvm_type(kind)
        for place, row in zip(places, rows, strict=True):
            at = self.shifted(place, offset)
            if count != 3:
                self.put(f"store <{count} x {t}> {row}, ptr {at}, align {kind.size}")
                continue
            pair, third = self.two_and_one(t, row)
            self.put(f"store <2 x {t}> {pair}, ptr {at}, align {kind.size}")
            self.put(f"store {t} {third}, ptr {self.shifted(at, 2 * kind.size)}, align {kind.size}")

    # -- sums in memory
    def in_threes(self, kind: Scalar, count: int) -> bool:
        """Is a row one of three numbers for each of the lanes, all of which take part, that is best moved in quarters?
        AVX-512 has shuffles that take it apart and put it together in less."""
        return count == 3 and kind.size == 4 and not self.masks and has_few_registers()

    def add_threes(self, op: Op, kind: Scalar, values: Sequence[Value]) -> None:
        """Adds to a row of three numbers for each lane, as it lies."""
        at, t = self.first_place(op), llvm_type(kind)
        how, vectors = self.signed(values)
        for offset, quarter in self.many_of_three(t, vectors):
            self.add_row(how, self.shifted(at, offset), kind, 4, quarter)

    def update_rows(self, op: Op, values: Sequence[Value]) -> None:
        """Adds to elements at scattered places: what is added is transposed, what it is added to stays in rows.

        Three numbers beside a fourth of their element are moved as four: adding -0 changes no number.  Subtracting it
        changes one, -0, to 0; but what is subtracted here and added there, as forces are, is transposed once then.
        """
        places, element = self.places(op), element_leaves(op.operands[0])
        runs: list[tuple[str, Scalar, int, int, list[str]]] = []
        for first, count, kind, offset in self.bundles(op):
            t = llvm_type(kind)
            how, added = self.signed(values[first : first + count])
            behind = op.leaves[first] + 3
            if count == 3 and behind < len(element) and element[behind].scalar is kind:
                if element[behind].offset == offset + 3 * kind.size:
                    added.append(f"splat ({t} {literal(-0.0, kind)})")
            count, rows = len(added), self.rows_of(t, added)
            beside = count == 4 and runs and runs[-1][:4] == (how, kind, 4, offset - 4 * kind.size)
            if beside and 8 * kind.size <= _WIDEST:
                both = [self.shuffle(t, 4, a, b, range(8)) for a, b in zip(runs[-1][4], rows, strict=True)]
                runs[-1] = how, kind, 8, offset - 4 * kind.size, both
            else:
                runs.append((how, kind, count, offset, rows))
        for lane, place in enumerate(places):
            for how, kind, count, offset, rows in runs:
                self.add_row(how, self.shifted(place, offset), kind, count, rows[lane])

    def added_to_old(self, op: Op, first: int, count: int) -> Sums | None:
        """What a place holds and what is to be added to make what is stored there; None if that is not a sum of what
        was loaded and something more.

        Nobody else touches it, and this operation is the first of the thread that does.
        """
        array, _, _, values = split_memory(op)
        if op.name != "store" or array.name not in self.func.attrs.get("exclusive", ()) or not self.is_scattered(op):
            return None
        sums = Sums()
        for leaf, value in zip(op.leaves[first : first + count], values[first : first + count], strict=True):
            made = self.made_by.get(value)
            others = [] if made is None or made.name != "add" else made.operands
            old = [self.is_old(op, leaf, v) for v in others]
            if self.is_old(op, leaf, value):
                sums.append((value, None))
            elif any(old):
                at = old.index(True)
                sums.append((others[at], others[1 - at]))
            else:
                return None
        return sums if any(more is not None for _, more in sums) else None

    def add_to_old(self, places: Sequence[str], kind: Scalar, offset: int, sums: Sums) -> bool:
        """Adds to numbers side by side, in memory.  Whether it has."""
        how, added = self.vectors_added(kind, sums)
        for place, row in zip(places, self.rows_of(llvm_type(kind), added), strict=True):
            self.add_row(how, self.shifted(place, offset), kind, len(sums), row)
        return True

    def vectors_added(self, kind: Scalar, sums: Sums) -> tuple[str, list[str]]:
        """How to add, and what: to numbers of which nothing becomes, what changes no number."""
        how, vectors = self.signed([more for _, more in sums if more is not None])
        nothing, left = f"splat ({llvm_type(kind)} {literal(0.0 if how == 'sub' else -0.0, kind)})", iter(vectors)
        return how, [nothing if more is None else next(left) for _, more in sums]

    def is_old(self, op: Op, leaf: int, value: Value) -> bool:
        """Is a value what a load has found where an operation stores?"""
        made = self.made_by.get(value)
        if made is None or made.name != "load" or made.operands != op.operands[: len(made.operands)]:
            return False
        if any(self.turn[made] < k < self.turn[op] for k in self.written_at(made.operands)):
            return False
        return made.leaves[made.results.index(value)] == leaf

    def written_at(self, place: Sequence[Value]) -> list[int]:
        """When operations write at such a place: array, then indices."""
        return [k for o, k in self.turn.items() if o.row.writes and o.operands[: len(place)] == place]

    def signed(self, values: Sequence[Value]) -> tuple[str, list[str]]:
        """How to add numbers, and their vectors: negated ones are subtracted, since their rows may be at hand."""
        factors = [self.of_negative(v) for v in values]
        if len(values) == 1 or not all(factors):
            return "add", [self.vector(v) for v in values]
        vectors = list[str]()
        for value, (negated, *others) in zip(values, factors, strict=True):
            kind = value.type
            assert isinstance(kind, Scalar)
            pair = [self.vector(v) for v in (negated, *others)]
            self.lanes = LANES
            vectors.append(self.arithmetic("mul", kind, pair) if others else pair[0])
            self.lanes = 1
        return "sub", vectors

    def of_negative(self, value: Value) -> list[Value]:
        """What a value is the negative of: one number, or a product of two."""
        made = self.made_by.get(value)
        if made is None or made.name not in ("neg", "mul"):
            return []
        if made.name == "neg":
            return made.operands
        signs = [self.made_by.get(v) for v in made.operands]
        for k, sign in enumerate(signs):
            if sign is not None and sign.name == "neg":
                return [sign.operands[0], made.operands[1 - k]]
        return []

    def add_row(self, how: str, at: str, kind: Scalar, count: int, row: str) -> None:
        """Adds to numbers side by side; to three of them as to two and one."""
        t = llvm_type(kind)
        if count == 3:
            pair, third = self.two_and_one(t, row)
            self.add_row(how, at, kind, 2, pair)
            self.add_row(how, self.shifted(at, 2 * kind.size), kind, 1, third)
        elif count == 1:
            self.store_one(at, kind, self.arithmetic(how, kind, [self.load_one(at, kind), row]))
        else:
            old = self.let(f"load <{count} x {t}>, ptr {at}, align {kind.size}")
            new = self.let(f"f{how} <{count} x {t}> {old}, {row}")
            self.put(f"store <{count} x {t}> {new}, ptr {at}, align {kind.size}")

    def two_and_one(self, t: str, row: str) -> tuple[str, str]:
        """A row of three as two registers."""
        return self.shuffle(t, 3, row, "poison", [0, 1]), self.let(f"extractelement <3 x {t}> {row}, i64 2")
