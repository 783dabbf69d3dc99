"""Random programs for the adjoint: pure functions built as IR, and kernels as Python source for the real front end."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import sim.core.lang.ir.ops  # noqa: F401 fills the table
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Value, emit
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import float64, int32

WIDTH = 4
"""Columns of the arrays that a kernel owns by row, and entries of the small arrays that all threads read."""


class RandomFunction:
    """A pure function of three numbers and an integer: nested if, for (both directions), while with a way out by
    value."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def build(self) -> Func:
        block = Block([*(Value(float64, f"x{k}") for k in range(3)), Value(int32, "n")])
        with Builder(block) as self.b:
            a, b, c = self.body(block.params[:3], 3, block.params[3])
            block.yields = [a + b * 0.3 + c * 0.7]
        return verify(Func("random", block))

    def expression(self, values: Sequence[Value]) -> Value:
        a, b = self.rng.choice(values), self.rng.choice(values)
        return self.rng.choice([
            lambda: a + b * 0.5, lambda: a * b, lambda: emit("sin", a), lambda: a / (emit("abs", b) + 2.0),
            lambda: emit("cos", a) * b, lambda: emit("max", a, b), lambda: a - b,
        ])()  # fmt: skip

    def body(self, before: Sequence[Value], depth: int, n: Value) -> list[Value]:
        values = list(before)
        for _ in range(self.rng.randint(1, 3)):
            kind, j = self.rng.randrange(5), self.rng.randrange(len(values))
            if kind <= 1 or depth == 0:
                values[j] = self.expression(values)
            elif kind == 2:
                condition = emit("lt", self.rng.choice(values), self.rng.choice(values))
                now = list(values)
                values = list(
                    self.b.if_(
                        condition,
                        lambda now=now: self.body(now, depth - 1, n),
                        lambda now=now: self.body(now, depth - 1, n),
                    )
                )
            elif kind == 3:
                count = n if self.rng.random() < 0.7 else self.b.const(self.rng.randint(0, 5), int32)
                start, backwards = [v * 0.9 for v in values], self.rng.random() < 0.3
                ends = self.b.for_(
                    count, start, lambda _, *carried: self.body(carried, depth - 1, n), reverse=backwards
                )
                values = [emit("sin", v) for v in ends]
            else:
                limit = self.b.const(self.rng.uniform(1.0, 3.0), float64)
                *ends, _ = self.b.while_(
                    [*values, self.b.const(0, int32)],
                    lambda *c, limit=limit: emit("and", emit("lt", c[-1], n), emit("lt", emit("abs", c[0]), limit)),
                    lambda *c: [*self.body(c[:-1], depth - 1, n), c[-1] + 1],
                )
                values = [emit("sin", v) for v in ends]
        return values


class RandomKernel:
    """Source of a kernel free of races: a thread owns row `i` of `x`, `y`, `p` (of vectors) and `q` (of integers), all
    threads read `g` and `k`, and add to `total`.

    Its arithmetic is exact in the sense that every back end rounds it alike: no transcendental functions.
    """

    HEADER = (
        "@sim.kernel\ndef {name}(x: sim.array2d[f64], y: sim.array2d[f64], p: sim.array[sim.vec3d], g: sim.array[f64],"
        " total: sim.array[f64],\n        k: sim.array[int], q: sim.array2d[int], n: int):\n    i = sim.tid()\n    a ="
        " x[i, 0]\n    b = g[i % 4]\n    c = f64(0.25)\n    m = 1\n    v = sim.vec3d(a, b, 0.5)\n"
    )

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops = self.names = 0
        self.lines: list[str] = []
        self.counters: list[str] = []

    def source(self, name: str) -> str:
        for _ in range(self.rng.randint(3, 7)):
            self.statement(3, "    ")
        self.lines += ["    y[i, 0] = a * b + c", f"    sim.atomic_add(total, {self.index()}, squash(a + v[1] * v[2]))"]
        return self.HEADER.format(name=name) + "\n".join(self.lines) + "\n"

    def index(self) -> str:
        choices = [
            "k[i % 4]",
            "q[i, 1] % 4",
            "(i + m) % 4",
            f"{self.rng.randrange(WIDTH)}",
            "m % 4",
            *(f"{c} % 4" for c in self.counters),
        ]
        return self.rng.choice(choices)

    def place(self) -> str:
        if self.rng.random() < 0.25:
            return f"p[i]{self.rng.choice(['.x', '[1]', '[m % 3]', '[q[i, 2] % 3]'])}"
        return f"{self.rng.choice('xy')}[i, {self.index()}]"

    def number(self) -> str:
        r = self.rng.random()
        if r < 0.5:
            return self.rng.choice(["a", "b", "c", "v[0]", "v.y", f"v[{self.rng.choice(('m % 3', 'n % 3'))}]"])
        if r < 0.7:
            return self.place()
        if r < 0.8:
            return f"g[{self.index()}]"
        if r < 0.85 and self.counters:
            return f"f64({self.rng.choice(self.counters)})"
        return f"f64({round(self.rng.uniform(-2.0, 2.0), 3)})"

    def expression(self) -> str:
        a, b, c = self.number(), self.number(), self.number()
        return self.rng.choice([
            f"squash({a} * {b})", f"{a} / (2.0 + {b} * {b})", f"sim.min({a}, {b}) * 0.5", f"{a} - 0.5 * {b}",
            f"sim.sqrt(1.0 + {a} * {a}) - {b}", f"({a} if {self.condition()} else {b} * {c})", f"squash({a}) * {b}",
        ])  # fmt: skip

    def condition(self) -> str:
        r = self.rng.random()
        if r < 0.4:
            return f"{self.number()} {self.rng.choice('<>')} {self.number()}"
        if r < 0.7:
            return f"{self.rng.choice(['m', 'm', 'q[i, 0]'])} % {self.rng.randint(2, 3)} == {self.rng.randint(0, 1)}"
        word = self.rng.choice(("and", "or"))
        return f"({self.number()} > 0.1 {word} {self.rng.choice(['n', 'm', 'i'])} < {self.rng.randint(0, 4)})"

    def block(self, depth: int, indent: str) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth, indent)

    def statement(self, depth: int, indent: str) -> None:
        r, say = self.rng.random(), self.lines.append
        if depth == 0 or r < 0.6:
            self.simple(r if depth else 0.0, indent)
        elif r < 0.72:
            say(f"{indent}if {self.condition()}:")
            self.block(depth - 1, indent + "    ")
            if self.rng.random() < 0.5:
                say(f"{indent}else:")
                self.block(depth - 1, indent + "    ")
        elif r < 0.84:
            self.loop(
                depth, indent, "for {0} in range(" + self.rng.choice(("n", "m + 1", "3", "n, 0, -1", "18")) + "):"
            )
        elif r < 0.92:
            self.names += 1
            counter = f"w{self.names}"
            say(f"{indent}{counter} = {self.rng.randint(0, 5)}")
            say(f"{indent}while {counter} > 0{f' and {self.condition()}' if self.rng.random() < 0.5 else ''}:")
            say(f"{indent}    {counter} -= 1")
            self.inside(depth, indent, counter)
        elif self.loops and r < 0.98:
            say(f"{indent}if {self.condition()}:")
            say(f"{indent}    {self.rng.choice(('break', 'continue'))}")
        else:
            say(f"{indent}if {self.condition()}:")
            self.store_before_the_end(indent + "    ")
            say(f"{indent}    return")

    def simple(self, r: float, indent: str) -> None:
        """A statement without others in it; `r` chooses its kind."""
        say = self.lines.append
        if r < 0.25:
            target = self.rng.choice(["a", "b", "c", "v[0]", "v[1]", "v.z", "v[m % 3]"])
            say(f"{indent}{target} {self.rng.choice(('=', '=', '+=', '*='))} squash({self.expression()})")
        elif r < 0.45:
            say(f"{indent}{self.place()} {self.rng.choice(('=', '=', '+='))} squash({self.expression()})")
        elif r < 0.48:  # linear: its operands are needed only to do it again
            target = self.rng.choice(["a", "b", "v[1]", self.place(), self.place()])
            say(f"{indent}{target} = 0.6 * {self.number()} - 0.3 * {self.rng.choice(['a', 'b', 'c', 'v.y'])}")
        elif r < 0.52:
            at = self.place()
            say(f"{indent}{at} = squash({at} * {self.number()}) + 0.5 * {at}")
        elif r < 0.56:
            say(f"{indent}sim.atomic_add(total, {self.index()}, squash({self.expression()}))")
        else:
            target = self.rng.choice(["m", "m", f"q[i, {self.rng.randint(0, 3)}]"])
            say(f"{indent}{target} = ({target} * {self.rng.randint(1, 3)} + n + {self.rng.randint(0, 2)}) % 7")

    def store_before_the_end(self, indent: str) -> None:
        self.lines.append(f"{indent}y[i, 1] = a * c")

    def loop(self, depth: int, indent: str, head: str) -> None:
        self.names += 1
        self.lines.append(indent + head.format(f"j{self.names}"))
        self.inside(depth, indent, f"j{self.names}")

    def inside(self, depth: int, indent: str, counter: str) -> None:
        self.loops += 1
        self.counters.append(counter)
        self.block(depth - 1, indent + "    ")
        self.counters.pop()
        self.loops -= 1


PRELUDE = "import sim\n\nf64 = sim.float64\n\n\n@sim.func\ndef squash(x):\n    return x / (1.0 + x * x)\n\n\n"


def load_kernels(
    seeds: Sequence[int], folder: Path, make: Callable[[int], RandomKernel] = RandomKernel, prelude: str = PRELUDE
) -> ModuleType:
    """A module with one kernel `k<seed>` per seed, written to `folder` and imported."""
    path = folder / f"fuzz_{seeds[0]}_{seeds[-1]}.py"
    path.write_text(prelude + "\n\n".join(make(seed).source(f"k{seed}") for seed in seeds))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
