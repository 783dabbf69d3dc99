"""Random functions of numbers with nested control flow, as Python source."""

from __future__ import annotations

import random


class Generator:
    """Random functions of nested control flow.  Every loop is bounded, every variable exists from the start."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = self.counters = 0

    def number(self) -> str:
        pick = self.random.choice
        return pick([pick("abc"), pick("abc"), pick("abc"), f"{self.random.uniform(-2, 2):.2f}"])

    def whole(self) -> str:
        return self.random.choice(["n", "m", "m", str(self.random.randint(-3, 4))])

    def expression(self) -> str:
        r = self.random.random()
        if r < 0.15:
            return f"({self.number()} if {self.condition()} else {self.number()})"
        if r < 0.3:
            return f"min({self.number()}, {self.number()}) * 0.5"
        return f"{self.number()} {self.random.choice('+-')} 0.5 * {self.number()}"

    def condition(self, depth: int = 0) -> str:
        r = self.random.random()
        if r < 0.2 and depth < 2:
            word = self.random.choice(("and", "or"))
            return f"({self.condition(depth + 1)} {word} {self.condition(depth + 1)})"
        if r < 0.5:
            return f"{self.whole()} {self.random.choice(('<', '==', '>=', '!='))} {self.whole()}"
        return f"{self.number()} {self.random.choice('<>')} {self.number()}"

    def block(self, depth: int, indent: str) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth, indent)

    def statement(self, depth: int, indent: str) -> None:
        r = self.random.random()
        say = self.lines.append
        if r < 0.4 or depth == 0:
            say(f"{indent}{self.random.choice('abc')} {self.random.choice(('=', '+=', '-='))} {self.expression()}")
        elif r < 0.5:
            say(f"{indent}m = abs(m * {self.random.randint(1, 3)} + {self.whole()}) % 7")
        elif r < 0.7:
            say(f"{indent}if {self.condition()}:")
            self.block(depth - 1, indent + "    ")
            if self.random.random() < 0.5:
                say(f"{indent}else:")
                self.block(depth - 1, indent + "    ")
        elif r < 0.85:
            self.counters += 1
            name = f"i{self.counters}"
            say(f"{indent}for {name} in range({self.random.choice(('n', 'm + 2', '3', '20', 'n, 5, 2', '4, n, -1'))}):")
            say(f"{indent}    a = a * 0.5 + float({name})")
            self.inside(depth, indent)
        elif r < 0.93:
            self.counters += 1
            name = f"w{self.counters}"
            say(f"{indent}{name} = {self.random.randint(0, 6)}")
            say(f"{indent}while {name} > 0{' and ' + self.condition() if self.random.random() < 0.4 else ''}:")
            say(f"{indent}    {name} -= 1")
            self.inside(depth, indent)
        elif self.loops and r < 0.98:
            say(f"{indent}if {self.condition()}:")
            say(f"{indent}    {self.random.choice(('break', 'continue'))}")
        else:
            say(f"{indent}if {self.condition()}:")
            say(f"{indent}    return {self.number()} + 1000.0")

    def inside(self, depth: int, indent: str) -> None:
        self.loops += 1
        self.block(depth - 1, indent + "    ")
        self.loops -= 1

    def program(self, name: str) -> str:
        self.lines = [f"def {name}(n, x, y):", "    a = x", "    b = y", "    c = 0.25", "    m = 1"]
        for _ in range(4):
            self.statement(4, "    ")
        self.lines.append("    return a + 2.0 * b - c + float(m)")
        return "\n".join(self.lines) + "\n"
