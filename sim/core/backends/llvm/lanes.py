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

from sim.core.backends.base import LANES
from sim.core.backends.llvm.lane_memory import LaneMemory
from sim.core.backends.llvm.lane_rows import values_in_rows
from sim.core.backends.llvm.lane_values import ALL, Counting, Lane, LaneVector, Split, Uniform
from sim.core.backends.llvm.writer import literal, llvm_type
from sim.core.lang.analysis.thread_locality import late_updates, uniform_values
from sim.core.lang.ir.core import Block, Func, Op, Value, split_memory, walk
from sim.core.lang.types import Scalar, size_of

LONG = 64
"""Operations of one side of a choice from which on it is jumped over where none of the eight takes it.  One that stores
at a place that is the same for all threads is in any case: a single thread is meant."""

LARGE = 500
"""Operations of a kernel from which on what remains is not worth code for single threads: each would take half the time
of eight."""


class LaneEmitter(LaneMemory):
    """The lines of the body for threads `%linear` to `%linear + 7`: one basic block, but for long sides of choices.

    `%dummy`: memory for nothing.

    names: of the parameters, as the range function has them; strides: (array, axis) -> its bytes.
    """

    def __init__(self, func: Func, names: dict[Value, str], strides: dict[tuple[Value, int], str]) -> None:
        super().__init__(func, names, strides)
        self.late = late_updates(func)
        self.uniform = uniform_values(func)
        self.put_off: list[tuple[Op, list[Lane], list[tuple[Value, Lane]], tuple[str, ...] | None]] = []
        self.is_large = sum(1 for _ in walk(func.body)) >= LARGE
        self.may_leave = False
        """Whether single threads can do instead what these eight have not begun: nothing is stored yet."""
        self.counted: dict[tuple[Value, str], Lane] = {}
        """The indices that have been looked at, as they are from there."""
        self.may_be_left = False
        """Whether there is a way by which they are left to these."""
        self.first_thread = "%linear"
        self.unseen: set[Op] = set()
        """What looks at its operands in memory: sums that are made there."""

    def emit(self, masked: bool = False) -> list[str]:
        """The lines of the body.  masked: for the first `%left` threads of the eight."""
        self.may_leave = not masked
        if masked:
            t = f"<{LANES} x i64>"
            one = self.let(f"insertelement {t} poison, i64 %left, i64 0")
            left = self.let(f"shufflevector {t} {one}, {t} poison, <{LANES} x i32> zeroinitializer")
            self.masks.append(self.let(f"icmp slt {t} <{', '.join(f'i64 {k}' for k in ALL)}>, {left}"))
            self.always = 1
        self.take_parameters()
        self.block(self.func.body.ops)
        self.finish_updates()
        return self.lines

    def take_parameters(self) -> None:
        self.unseen = self.sums_of_old()
        self.in_rows = values_in_rows(self.func, self.rows_of_load, self.unseen)
        for p in self.func.params:
            if isinstance(p.type, Scalar):
                self.values[p] = Uniform(self.names[p])

    def rows_of_load(self, op: Op) -> list[tuple[Value, ...]]:
        """The values that a load takes from each row, side by side."""
        runs = self.bundles(op) if self.is_scattered(op) else []
        return [tuple(op.results[first : first + count]) for first, count, _, _ in runs if count > 2]

    def sums_of_old(self) -> set[Op]:
        """The stores that add to what is there, and the sums that nobody else looks at."""
        found = set[Op]()
        if self.sums_in_rows:
            for op in walk(self.func.body):
                runs = self.bundles(op) if op.name == "store" else []
                if runs and all(self.added_to_old(op, first, count) for first, count, _, _ in runs):
                    found |= {op, *(self.made_by[v] for v in split_memory(op)[3] if not self.is_load(v))}
        return found

    def is_load(self, value: Value) -> bool:
        return value not in self.made_by or self.made_by[value].name == "load"

    # -- operations
    def block(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if op.name == "from_end" and self.may_leave:
                self.values[op.results[0]] = self.left_if_from_end(op)
            elif op.is_primitive:
                self.values[op.results[0]] = self.primitive(op)
            elif op.name == "const":
                kind = op.results[0].type
                assert isinstance(kind, Scalar)
                self.values[op.results[0]] = Uniform(literal(op.attrs["value"], kind))
            elif op.name == "tid":
                self.values[op.results[0]] = Counting(self.let(f"trunc nsw i64 {self.first_thread} to i32"))
            elif op.name == "shape":
                extent = f"{self.names[op.operands[0]]}.n{op.axis}"
                self.values[op.results[0]] = Uniform(self.let(f"trunc nsw i64 {extent} to i32"))
            elif op.name == "if":
                self.choice(op)
            elif op.name == "load":
                self.load(op)
            elif op.name == "store":
                self.may_leave = False
                self.store(op, [(v, self.of(v)) for v in split_memory(op)[3]])
            else:
                self.may_leave = self.may_leave and op in self.late
                self.update(op)

    def left_if_from_end(self, op: Op) -> Lane:
        """An index of which no lane counts from the end: where one does, the eight are left to single threads.

        Selections would take the index of each lane through registers of vectors, and those that count side by side
        would not any more.
        """
        value = op.operands[0]
        kind, lane, key = value.type, self.of(value), (value, self.masks[-1] if self.masks else "")
        assert isinstance(kind, Scalar)
        if kind.kind == "u":
            return lane
        if key in self.counted:
            return self.counted[key]
        t = llvm_type(kind)
        if self.masks:
            negative = self.let(f"icmp slt <{LANES} x {t}> {self.vector(value)}, zeroinitializer")
            some = self.any_of(self.let(f"and <{LANES} x i1> {negative}, {self.masks[-1]}"))
        elif isinstance(lane, LaneVector):
            some = self.any_of(self.let(f"icmp slt <{LANES} x {t}> {lane.name}, zeroinitializer"))
        else:
            one = lane.first if isinstance(lane, Counting) else lane.name if isinstance(lane, Uniform) else ""
            first, *more = lane.names if isinstance(lane, Split) else [one]
            for name in more:
                first = self.let(f"or {t} {first}, {name}")
            some = self.let(f"icmp slt {t} {first}, 0")
        leave, stay = self.label(), self.label()
        self.put(f"br i1 {some}, label %{leave}, label %{stay}, !prof !6")
        self.start(leave)
        self.put("ret i1 false")
        self.start(stay)
        self.may_be_left = True
        self.counted[key] = self.one_by_one(value) or lane
        return self.counted[key]

    def one_by_one(self, value: Value) -> Lane | None:
        """Integers that lie side by side, loaded again as scalars: what a vector of them is needed for beside would
        have them taken out of its register.  Nothing is stored yet."""
        made = self.made_by.get(value)
        if made is None or made.name != "load" or self.masks or self.shape_of(made) != "row" or len(made.results) > 1:
            return None
        (kind,), _ = self.leaves(made)
        at = self.first_place(made)
        return Split(tuple(self.load_one(self.shifted(at, k * kind.size), kind) for k in ALL))

    def choice(self, op: Op) -> None:
        """Both sides, then a selection."""
        cond = self.of(op.operands[0])
        test = self.vector(op.operands[0], cond)
        other = self.let(f"xor <{LANES} x i1> {test}, splat (i1 true)")
        for region, mask in zip(op.regions, (test, other), strict=True):
            outer = self.masks[-1] if self.masks else None
            self.masks.append(mask if outer is None else self.let(f"and <{LANES} x i1> {outer}, {mask}"))
            if self.is_worth_a_jump(region):
                self.jumped_over(region)
            else:
                self.block(region.ops)
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

    def is_worth_a_jump(self, region: Block) -> bool:
        """Is a side of a choice worth a jump, and can there be one?"""
        ops = list(walk(region))
        numbers = all(isinstance(v.type, Scalar) and v.type.is_float for v in region.yields)
        if not numbers or not self.late.isdisjoint(ops):
            return False
        return len(ops) >= LONG or any(
            op.name == "store" and self.uniform.issuperset(split_memory(op)[1]) for op in ops
        )

    def jumped_over(self, region: Block) -> None:
        """A side that some of the eight take, by the last of the masks; without any, what it gives is 0."""
        some, side, after = self.any_of(self.masks[-1]), self.label(), self.label()
        before = self.here
        self.put(f"br i1 {some}, label %{side}, label %{after}")
        self.start(side)
        known = self.as_vector.copy(), self.as_split.copy(), self.rows.copy(), self.at_hand.copy()
        self.block(region.ops)
        inside = {v for op in region.ops for v in op.results}
        made = {v: self.vector(v) for v in region.yields if v in inside}
        self.as_vector, self.as_split, self.rows, self.at_hand = known  # what was made in there is not there after
        end = self.here
        self.put(f"br label %{after}")
        self.start(after)
        for value, name in made.items():
            ways = f"[ {name}, %{end} ], [ zeroinitializer, %{before} ]"
            self.values[value] = LaneVector(self.let(f"phi <{LANES} x {llvm_type(value.type)}> {ways}"))

    # -- accumulations
    def update(self, op: Op) -> None:
        _, index, _, values = split_memory(op)
        if op in self.late:
            mask = self.taken("i1", self.masks[-1]) if self.masks else None
            self.put_off.append((op, [self.of(v) for v in index], [(v, self.of(v)) for v in values], mask))
            return
        if self.shape_of(op) == "rows":
            if not self.masks and not self.is_large:
                self.find_again(split_memory(op)[1])
            self.update_rows(op, values)
            return
        kinds, _ = self.leaves(op)
        if self.shape_of(op) == "row" and self.in_threes(kinds[0], len(kinds)):
            self.add_threes(op, kinds[0], values)
            return
        sums: list[tuple[Value, Lane]] = []
        before = [self.vector(v, a) for v, a in zip(values, self.loaded(op), strict=True)]
        added = [self.vector(v) for v in values]
        self.lanes = LANES
        for kind, value, a, b in zip(kinds, values, before, added, strict=True):
            sums.append((value, LaneVector(self.arithmetic("add", kind, [a, b]))))
        self.lanes = 1
        self.store(op, sums)

    def find_again(self, index: Sequence[Value]) -> None:
        """Indices loaded again where elements are added to, instead of eight places that were kept since these were
        read: there are not as many registers, and what is put into memory has to be stored first.  A large kernel has
        other things in registers."""
        written = {op.operands[0] for op in walk(self.func.body) if op.row.writes}
        for value in index:
            made = self.made_by.get(value)
            if made is not None and made.name == "load" and made.operands[0] not in written:
                self.load(made)
        self.rows.clear()

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
