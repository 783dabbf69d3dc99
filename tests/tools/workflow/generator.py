"""Draws the programs of the workflow fuzzer: tapes, kernels and arrays.  `generator_rollouts` has those with
solvers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tools.workflow.reference import Array, Tape
from tools.workflow.run import Statement

FAMILIES = (
    "change", "replace", "interrupt", "fail", "seeds", "capture", "slices", "toggle", "gradients", "redefine",
    "threads", "solvers", "aside",
    "narrow", "commands", "states", "forward",
)  # fmt: skip
"""What programs do beside recording and going backward."""

Draw = Callable[[], Iterator[Statement]]


@dataclass
class Generator:
    """Draws the statements of a program, one after the other, looking at what there is in `world`: the names of the
    stand-in."""

    rng: np.random.Generator
    families: frozenset[str]
    world: dict[str, Any]
    made: Counter[str] = field(default_factory=Counter)

    # -- drawing
    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, things: Any) -> Any:
        things = list(things)
        return things[int(self.rng.integers(len(things)))] if things else None

    def name(self, stem: str) -> str:
        self.made[stem] += 1
        return f"{stem}{self.made[stem] - 1}"

    def rand(self, *shape: int) -> str:
        return f"rand({int(self.rng.integers(1000))}, {', '.join(map(str, shape))})"

    def like(self, a: Array) -> str:
        """Random values for an array."""
        return self.rand(*a.at.shape)

    def interrupt(self, longest: float) -> int:
        """Lines until Ctrl-C: of all sizes up to e^longest."""
        return int(np.exp(self.rng.uniform(0, longest)))

    # -- what there is
    def get(self, text: str) -> Any:
        return eval(text, self.world)

    def known(self, kind: type) -> list[str]:
        return [name for name, thing in self.world.items() if isinstance(thing, kind)]

    def numbers(self, length: int | None = None) -> list[str]:
        """Arrays of numbers of one dimension, and slices of them."""
        out = [
            n
            for n in self.known(Array)
            if self.world[n].inner == 0 and self.world[n].at.ndim == 1 and not n.startswith("loss")
        ]
        for n in list(out) if "slices" in self.families else ():
            size = self.world[n].size
            k = length if length is not None else int(self.rng.integers(1, max(2, size)))
            if k < size:
                first = int(self.rng.integers(0, size - k + 1))
                out.append(f"{n}[{first}:{first + k}]")
        return [n for n in out if length is None or self.get(n).size == length]

    def arrays(self) -> list[str]:
        """All arrays that a program may look at."""
        return self.numbers()

    def whole_arrays(self) -> list[str]:
        return [n for n in self.arrays() if "[" not in n and "(" not in n]

    @staticmethod
    def apart(x: Array, y: Array) -> bool:
        return x.cell is not y.cell or not np.intersect1d(x.at, y.at).size

    def disjoint(self, a: str, b: str) -> bool:
        return self.apart(self.get(a), self.get(b))

    def tapes(self) -> list[str]:
        return [n for n in self.known(Tape) if n.startswith("t")]

    @property
    def tape(self) -> Tape | None:
        """The one that records."""
        tapes = self.get("sim").tapes
        return tapes[-1] if tapes else None

    @property
    def capturing(self) -> bool:
        return bool(self.get("sim").graphs)

    # -- a program
    def statements(self) -> Iterator[Statement]:
        yield from self.begin()
        for _ in range(int(self.rng.integers(1, 4))):
            yield from self.episode()
        for tape in reversed(self.tapes()):
            if self.chance(0.5):
                yield from self.backward(tape)

    def begin(self) -> Iterator[Statement]:
        self.made.update({"x": 1, "p": 1})
        yield Statement(f"p0 = sim.array({self.rand(40)}, dtype=sim.float64, requires_grad=True)")
        yield Statement(f"x0 = sim.array({self.rand(5)}, dtype=sim.float64, requires_grad=True)")

    def episode(self) -> Iterator[Statement]:
        """Record something with a loss, upset things, go back."""
        loss, graph = self.name("loss"), self.name("graph")
        tape = self.pick(self.tapes()) if self.chance(0.15) else None
        if tape is None:
            tape = self.name("t")
            yield Statement(f"{tape} = sim.Tape()")
        yield Statement(f"{loss} = sim.array([0.0], dtype=sim.float64, requires_grad=True)")
        whole = "capture" in self.families and self.chance(0.4)
        if whole:
            yield Statement(f"c_{graph} = sim.capture()", calm=False)
            yield Statement(f"{graph} = c_{graph}.__enter__()", calm=False)
        yield Statement(f"{tape}.__enter__()")
        for _ in range(int(self.rng.integers(1, 4))):
            if "capture" in self.families and not whole and self.chance(0.2):
                yield from self.captured(self.work)
            else:
                yield from self.work()
            if self.chance(0.3):
                yield from self.upset()
        yield from self.lose(loss)
        yield Statement(f"{tape}.__exit__(None, None, None)")
        back_too = whole and self.chance(0.6)
        if back_too:
            yield from self.backward(tape, loss)
        if whole:
            yield Statement(f"c_{graph}.__exit__(None, None, None)")
        yield from self.upsets(3)
        if whole and self.chance(0.8):
            if self.chance(0.5):
                yield Statement(f"{tape}.zero()")
            yield Statement(f"{graph}.replay()", calm=False)
        if not back_too or self.chance(0.3):
            yield from self.backward(tape, loss)
        yield from self.upsets(3)
        if self.chance(0.4):
            yield Statement(f"{tape}.{self.pick(['zero', 'zero', 'reset'])}()")
        if self.chance(0.3):
            yield from self.backward(self.pick(self.tapes()))

    def captured(self, work: Draw) -> Iterator[Statement]:
        graph = self.name("graph")
        yield Statement(f"c_{graph} = sim.capture()", calm=False)
        yield Statement(f"{graph} = c_{graph}.__enter__()", calm=False)
        yield from work()
        yield Statement(f"c_{graph}.__exit__(None, None, None)")

    def backward(self, tape: str, loss: str | None = None) -> Iterator[Statement]:
        # what a later tape has left in a gradient, or the user has written there, may make it ambiguous
        latest = max(self.get(t).order for t in self.tapes()) == self.get(tape).order
        calm, how = loss is not None and latest, self.rng.random()
        if loss is None:
            loss = self.pick(n for n in self.known(Array) if n.startswith("loss"))
        text = f"{tape}.backward(loss={loss})"
        if "seeds" in self.families and how < 0.5:
            target = self.pick(self.written(tape))
            calm = False
            if target is not None and how < 0.25:
                text = f"{tape}.backward(grads={{{target}: {self.like(self.get(target))}}})"
            elif target is not None and how < 0.4:
                yield Statement(f"{target}.grad.assign({self.like(self.get(target))})", calm=calm)
                text = f"{tape}.backward()"
            else:
                text = f"{tape}.backward()"
        if "interrupt" in self.families and self.chance(0.3):
            yield Statement(text, self.interrupt(9))
            calm = False
        thread = "threads" in self.families and self.chance(0.2)
        if "aside" in self.families and self.chance(0.1):
            text = f"with sim.autograd.detect_nonfinite(): {text}"
        yield Statement(text, thread=thread, calm=calm)

    def written(self, tape: str) -> list[str]:
        """Arrays with a name that the tape has written."""
        cells = {a.cell for n in self.get(tape).nodes for a in n.operation.writes}
        return [n for n in self.whole_arrays() if self.get(n).cell in cells and self.get(n).requires_grad]

    def lose(self, loss: str) -> Iterator[Statement]:
        """Sums something up."""
        x = self.pick(self.numbers())
        yield Statement(f"sim.launch(kernels.total, {self.get(x).size}, [{x}], [{loss}])")

    # -- what is recorded
    def work(self) -> Iterator[Statement]:
        yield from self.pick([self.launch, self.launch, self.copies])()

    def launch(self) -> Iterator[Statement]:
        kernel, x = self.pick(["apply", "apply", "in_place", "blend"]), self.pick(self.numbers())
        size = self.get(x).size
        if kernel == "in_place":
            yield Statement(f"sim.launch(kernels.in_place, {size}, [{x}])")
            return
        y = self.pick(y for y in self.numbers(size) if self.disjoint(x, y)) if self.chance(0.5) else None
        if y is None:
            y = self.name("y")
            yield Statement(f"{y} = sim.array({self.rand(size)}, dtype=sim.float64, requires_grad=True)")
        call = f"sim.launch(kernels.{kernel}, {size}, [{', '.join([x] * (1 + (kernel == 'blend')))}], [{y}]"
        if "commands" in self.families and self.chance(0.4):
            yield Statement(f"{self.name('command')} = {call}, record_cmd=True)", calm=False)
            yield from self.command()
        else:
            yield Statement(f"{call})")

    def command(self) -> Iterator[Statement]:
        command = self.pick(n for n in self.world if n.startswith("command"))
        if command is None:
            return
        if self.chance(0.3):
            arrays = self.get(command).arrays
            other = self.pick(
                n for n in self.numbers(arrays[0].size) if all(self.apart(self.get(n), a) for a in arrays)
            )
            if other is not None:
                yield Statement(
                    f"{command}.set_param_at_index({int(self.rng.integers(len(arrays)))}, {other})", calm=False
                )
        yield Statement(f"{command}.launch()", calm=False)

    def copies(self) -> Iterator[Statement]:
        how = self.rng.random()
        if how < 0.3:
            x = self.pick(n for n in self.arrays() if not n.startswith("bad"))
            detached = ", requires_grad=False" if self.chance(0.1) else ""
            yield Statement(
                f"{self.name('y' if self.get(x).inner == 0 else 'v')} = sim.clone({x}{detached})", calm=not detached
            )
            return
        x = self.pick(self.numbers())
        size = self.get(x).size
        source = self.pick(y for y in self.numbers(size) if self.disjoint(x, y))
        if source is not None and how < 0.6:
            yield Statement(
                self.pick([f"{x}.assign({source})", f"sim.copy({x}, {source})"]), calm=bool(self.get(x).requires_grad)
            )
        else:
            yield Statement(self.pick([f"{x}.assign({self.rand(size)})", f"{x}.fill_({self.pick([0.0, 0.4])})"]))

    # -- what happens in between
    def upsets(self, most: int) -> Iterator[Statement]:
        for _ in range(int(self.rng.integers(0, most))):
            yield from self.upset()

    def table(self) -> dict[str, list[Draw]]:
        """What happens in between, by family."""
        return {
            "change": [self.copies], "toggle": [self.toggle], "gradients": [self.gradients],
            "redefine": [self.redefine],
            "seeds": [self.write_gradient], "fail": [self.record_failing], "capture": [self.replay],
            "threads": [self.together],
            "aside": [self.look], "commands": [self.command],
        }  # fmt: skip

    def upset(self) -> Iterator[Statement]:
        options = [do for name, found in self.table().items() if name in self.families for do in found]
        if options:
            yield from self.pick(options)()

    def toggle(self) -> Iterator[Statement]:
        yield Statement(f"{self.pick(self.whole_arrays())}.requires_grad = {self.pick([True, False])}", calm=False)

    def gradients(self) -> Iterator[Statement]:
        """Another gradient array, or none."""
        x = self.pick(self.whole_arrays())
        if self.chance(0.4):
            yield Statement(f"{x}.grad = None", calm=False)
            return
        array, g = self.get(x), self.name("g")
        values = self.like(array) if self.chance(0.5) else f"0 * {self.like(array)}"
        yield Statement(f"{g} = sim.array({values}, dtype={'sim.vec3d' if array.inner else 'sim.float64'})")
        yield Statement(f"{x}.grad = {g}", calm=False)

    def write_gradient(self) -> Iterator[Statement]:
        x = self.pick(n for n in self.arrays() if self.get(n).requires_grad)
        if x is not None:
            yield Statement(f"{x}.grad.{self.pick(['zero_()', f'assign({self.like(self.get(x))})'])}", calm=False)

    def redefine(self) -> Iterator[Statement]:
        yield Statement(self.pick([
            "kernels.GAIN = 0.8", "kernels.GAIN = 2.1", "kernels.shape = kernels.soften",
            "kernels.shape = kernels.squash",
            "sim.func_grad(kernels.squash)(kernels.doubled)", "sim.func_grad(kernels.squash)(kernels.tripled)",
        ]), calm=False)  # fmt: skip

    def record_failing(self) -> Iterator[Statement]:
        """A host function on the tape whose way back raises the first time."""
        if self.tape is None or self.capturing:
            return
        tape = next(n for n in self.tapes() if self.get(n) is self.tape)
        yield Statement(f"{tape}.record_func(failing(1), [x0])", calm=False)

    def replay(self) -> Iterator[Statement]:
        graph = self.pick(n for n in self.world if n.startswith("graph"))
        if graph is not None and not self.capturing:
            yield Statement(f"{graph}.replay()", calm=False)

    def together(self) -> Iterator[Statement]:
        """Two threads at once, each with a tape of its own, which is not used again: nobody knows which began first."""
        lines = []
        for _ in range(2):
            x, y, t = self.name("x"), self.name("y"), self.name("alone")
            kernel, size = self.pick(["apply", "blend"]), int(self.rng.integers(2, 40))
            arrays = f"{x}, {y} = (sim.array(v, dtype=sim.float64, requires_grad=True) for v in {self.rand(2, size)})"
            launch = f"sim.launch(kernels.{kernel}, {size}, [{', '.join([x] * (1 + (kernel == 'blend')))}], [{y}])"
            inside = f"{t} = sim.Tape(); {t}.__enter__(); {launch}; {t}.__exit__(None, None, None)"
            lines.append(f"{arrays}; {inside}; {t}.backward(grads={{{y}: {self.rand(size)}}})")
        yield Statement("\n".join(lines), together=True)

    def look(self) -> Iterator[Statement]:
        """What leaves everything as it is."""
        x = self.pick(self.numbers())
        tape = self.pick(self.tapes())
        size, ones = self.get(x).size, f"np.ones({self.get(x).size})"
        loss = "outputs=[sim.zeros(1, dtype=sim.float64, requires_grad=True)]"
        clone = f"outputs=[sim.clone({x}, requires_grad=False)]"
        options = [f"aside(lambda: {x}.numpy())", f"aside(lambda: repr({x}))"]
        options += [] if self.tape is not None else [
            f"aside(lambda: sim.autograd.jvp(kernels.apply, [{x}], [{ones}], dim={size}, {clone}))",
            f"aside(lambda: sim.autograd.jvp(kernels.total, [{x}], [{ones}], dim={size}, {loss}))",
            f"aside(lambda: sim.autograd.hvp(kernels.total, [{x}], [{ones}], dim={size}, {loss}))",
            f"aside(lambda: sim.clone({x}, requires_grad=False).assign(0 * {self.rand(size)}))",
        ]  # fmt: skip
        if tape is not None:
            options += [f"aside(lambda: {tape}.{call})" for call in ("memory()", "visualize()", "gradients")]
        text = self.pick(options)
        if "interrupt" in self.families and "autograd" in text and self.chance(0.5):
            yield Statement(text, self.interrupt(8))
        yield Statement(text, calm=False)
