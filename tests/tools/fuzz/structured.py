"""Random kernels with nested structs, local arrays of them, references and several results, as Python source.

Control flow is that of `RandomKernel`.  What is stored and read are places of all types: `ls[k % 2].inn.m[j % 2]` is a
vector of two wherever one is wanted, to the left of `=` too.
"""

from __future__ import annotations

from tools.fuzz.programs import PRELUDE, RandomKernel

STRUCTURED_PRELUDE = (
    PRELUDE
    + """
@sim.struct
class Inner:
    m: sim.mat22d
    w: sim.vec2d
    k: int


@sim.struct
class Outer:
    a: f64
    v: sim.vec3d
    inn: Inner
    b: f64


@sim.func
def two(a: f64, v: sim.vec3d):
    b = squash(a + v[1])
    u = v
    u[0] = b
    v[2] = a * 0.5
    if b > 0.2:
        return u, b
    return u - v, a - b


@sim.func
def early(a: f64, k: int):
    s = a
    for j in range(k):
        if s > 1.0:
            return s * 0.5, j
        s += squash(a) + 0.3
    return s, k


@sim.func
def mixed(s: Outer, t: f64):
    s.a = s.a * t + s.inn.w[1]
    s.v[1] += squash(t * s.b)
    s.inn.m[0, 1] = squash(s.inn.m[1, 0] * t)
    return s


@sim.func
def bump(s: sim.ref[Outer], t: f64):
    s.v[0] += t
    if t > 0.0:
        s.inn.w[0] = squash(s.a)
        return
    s.b = 0.5 * s.b + t


@sim.func
def turn(v: sim.ref[sim.vec3d], k: int):
    v[k] = squash(v[0] + v[2])
    v.y += 0.25 * v[k]


@sim.func
def roll(l: sim.array[f64], t: f64):
    for j in range(l.shape[0]):
        l[j] = l[j] * 0.5 + t
    l[1] = squash(l[0] * l[2])


"""
)


class StructuredKernel(RandomKernel):
    """Source of a kernel free of races: a thread owns row `i` of `x`, `p` (of vectors), `items` (of structs) and `q`
    (of integers), all threads read `g` and `k`, and add to `total`."""

    HEADER = """@sim.kernel
def {name}(x: sim.array2d[f64], p: sim.array[sim.vec3d], items: sim.array[Outer], g: sim.array[f64],
        total: sim.array[f64], k: sim.array[int], q: sim.array2d[int], n: int):
    i = sim.tid()
    a = x[i, 0]
    b = g[i % 4]
    c = f64(0.25)
    m = 1
    v = p[i]
    u = sim.vec3d(a, 0.3, b)
    w = sim.vec2d(b, a)
    s = items[i]
    l = sim.zeros(shape=4, dtype=f64)
    l[1] = a
    ls = sim.zeros(shape=2, dtype=Outer)
    ls[1] = s
"""
    FOOTER = """    x[i, 1] += a * b + c
    p[i] += v + u * 0.3
    items[i].v += s.v + ls[0].v * 0.5
    items[i].a = s.a + ls[1].b + l[2] + l[m % 4]
    items[i].inn.m += s.inn.m * 0.5 + ls[1].inn.m
    items[i].inn.w += w
"""

    def source(self, name: str) -> str:
        for _ in range(self.rng.randint(4, 8)):
            self.statement(3, "    ")
        return self.HEADER.format(name=name) + "\n".join(self.lines) + "\n" + self.FOOTER

    def at(self, count: int) -> str:
        """An index below `count`: often one that is known at run time only."""
        return self.rng.choice([str(self.rng.randrange(count)), f"{self.index()} % {count}"])

    # -- places: what can be read and stored
    def struct(self) -> str:
        return self.rng.choice(["s", "s", "items[i]", f"ls[{self.at(2)}]", f"ls[{self.at(2)}]"])

    def matrix(self) -> str:
        return f"{self.struct()}.inn.m"

    def pair(self) -> str:
        return self.rng.choice(["w", f"{self.struct()}.inn.w", f"{self.matrix()}[{self.at(2)}]", "v[:2]", "u[::2]"])

    def vector(self) -> str:
        return self.rng.choice(["v", "u", "p[i]", f"{self.struct()}.v"])

    def place(self) -> str:
        return self.rng.choice([
            lambda: f"x[i, {self.at(4)}]", lambda: f"l[{self.at(4)}]",
            lambda: f"{self.struct()}.{self.rng.choice('ab')}",
            lambda: self.vector()
            + self.rng.choice([".x", ".z", f"[{self.at(3)}]", f"[-{self.rng.randint(1, 3)}]"]),
            lambda: f"{self.struct()}.inn.w[{self.at(2)}]", lambda: f"{self.matrix()}[{self.at(2)}, {self.at(2)}]",
        ])()  # fmt: skip

    # -- values
    def number(self) -> str:
        if self.rng.random() < 0.5:
            return self.place()
        return self.rng.choice(["a", "b", "c", f"g[{self.at(4)}]", f"f64({self.rng.uniform(-1.5, 1.5):.2f})"])

    def expression(self) -> str:
        a, b = self.number(), self.number()
        return self.rng.choice([
            f"{a} * {b}", f"{a} - 0.5 * {b}", f"sim.min({a}, {b})", f"sim.abs({a}) * {b}", f"sim.sin({a})",
            f"({a} if {self.condition()} else {b})", f"sim.where({self.condition()}, {a}, {b})",
            f"sim.dot({self.vector()}, {self.vector()})", f"sim.sqrt(1.0 + {a} * {a})",
        ])  # fmt: skip

    def small(self) -> str:
        return f"squash({self.expression()})"

    def simple(self, r: float, indent: str) -> None:
        self.lines.append(indent + self.rng.choice([self.assignment, self.assignment, self.assignment, self.call])())

    def assignment(self) -> str:
        sign = self.rng.choice(["=", "=", "+=", "-="])
        struct, matrix, pair, vector = self.struct(), self.matrix(), self.pair(), self.vector()
        return self.rng.choice([
            lambda: f"{self.rng.choice('abc')} {sign} {self.small()}",
            lambda: f"{self.place()} {sign} {self.small()}",
            lambda: f"{self.place()} {sign} {self.small()}",
            lambda: f"a, b = {self.rng.choice(['b, a', f'c, {self.small()}'])}",
            lambda: self.rng.choice([
                f"{vector} = {self.vector()} * 0.5 - {self.vector()} * 0.4", f"{vector} = {self.vector()}[::-1]",
                f"{vector} {sign} {self.small()} * {self.vector()}",
                f"{vector} = {self.vector()} if {self.condition()} else {self.vector()}",
            ]),
            lambda: self.rng.choice([
                f"{pair} = sim.vec2d({self.number()}, {self.number()})", f"{pair} {sign} {self.pair()} * 0.5",
                f"{pair} = {matrix} @ {self.pair()} * {self.small()}",
            ]),
            lambda: f"{matrix} = {self.rng.choice([f'sim.transpose({self.matrix()})', f'{self.matrix()} * 0.6'])}",
            lambda: f"{struct} = " + self.rng.choice([
                self.struct(), f"mixed({self.struct()}, {self.small()})",
                f"Outer({self.number()}, {vector}, Inner({matrix}, {pair}, 2), {self.number()})",
                f"s if {self.condition()} else ls[{self.at(2)}]",
            ]),
            lambda: f"m = (m * {self.rng.randint(1, 3)} + {self.rng.choice(['n', 's.inn.k', 'i'])}) % 7",
            lambda: f"q[i, {self.at(4)}] = (m + {self.rng.randint(0, 2)}) % 5",
            lambda: "s.inn.k += 1",
        ])()  # fmt: skip

    def call(self) -> str:
        own = self.rng.choice(["s", f"ls[{self.at(2)}]"])
        return self.rng.choice([
            f"bump({own}, {self.small()})", f"turn({self.rng.choice(['v', 'u', f'{own}.v'])}, {self.at(3)})",
            f"roll(l, {self.small()})",
            f"{self.rng.choice(['v, a', 's.v, s.a'])} = two({self.number()}, {self.vector()})",
            f"{self.rng.choice('ab')}, m = early({self.small()}, {self.rng.choice(['n', 'm % 4', '3'])})",
            f"sim.atomic_add(total, {self.at(4)}, {self.small()})",
        ])  # fmt: skip

    def store_before_the_end(self, indent: str) -> None:
        """Of any place: the adjoint has to take back what some threads stored before others stored more."""
        self.lines.append(indent + self.assignment())
