"""One-line mutants of a Python file, from its syntax tree; `mutate.py` runs the tests on them.

What is mutated: comparisons, arithmetic, boolean operators and their operands, conditions, constants, `min`/`max` and
`any`/`all`, order of arguments, keyword arguments, elements of displays, wrapping calls, returned values, statements
without a value.  What is not: annotations, decorators, docstrings, strings, `assert` and `strict=`, what is raised or
warned, `__repr__`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_PLAIN = {
    "dict",
    "enumerate",
    "frozenset",
    "getattr",
    "hasattr",
    "id",
    "isinstance",
    "iter",
    "len",
    "list",
    "next",
    "print",
    "range",
    "repr",
    "reversed",
    "set",
    "str",
    "super",
    "tuple",
    "type",
    "zip",
}
"""Calls whose arguments are neither swapped nor put in their place: nearly always a TypeError, or no change."""
_COMMUTATIVE = {"add", "and", "eq", "max", "min", "mul", "ne", "or", "xor"}
"""IR operations whose operands are not swapped."""
_BINDING = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute, ast.IfExp, ast.Starred, ast.comprehension)
_LOOSE = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr)


@dataclass(frozen=True)
class Mutant:
    """`source[start:end]`, bytes of the file, is replaced by `text`; `name`: the function, then `before -> after`."""

    line: int
    last: int
    start: int
    end: int
    text: str
    name: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines; names are unique."""
    raw = source.encode()
    finder = _Finder(raw)
    finder.visit(ast.parse(source))
    seen: dict[str, int] = {}
    found = []
    for mutant in sorted(finder.found, key=lambda m: (m.start, m.end, m.text)):
        seen[mutant.name] = again = seen.get(mutant.name, 0) + 1
        found.append(mutant if again == 1 else replace(mutant, name=f"{mutant.name} ({again})"))
    return found


def _short(text: str) -> str:
    """One line of at most 100 characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else f"{flat[:60]} ... {flat[-35:]}"


class _Finder(ast.NodeVisitor):
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.starts = [0]
        for line in raw.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Mutant] = []
        self.parents: list[ast.AST] = []
        self.scope: list[str] = []

    # ---- which parts are looked at
    def visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            return
        named = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        if named:
            if node.name in ("__repr__", "__str__"):  # type: ignore[attr-defined]
                return
            self.scope.append(node.name)  # type: ignore[attr-defined]
        if isinstance(node, (ast.expr, ast.stmt)):
            for new in (*self._expressions(node), *self._statements(node)):
                self._add(node, new)
        self.parents.append(node)
        for child in self._children(node):
            self.visit(child)
        self.parents.pop()
        if named:
            self.scope.pop()

    @staticmethod
    def _children(node: ast.AST) -> Iterator[ast.AST]:
        skipped: list[ast.AST | None] = []
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            skipped += node.decorator_list
        if isinstance(node, ast.FunctionDef):
            skipped += [
                node.returns,
                *(a.annotation for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)),
            ]
        if isinstance(node, ast.arg):
            skipped.append(node.annotation)
        if isinstance(node, ast.AnnAssign):
            skipped.append(node.annotation)
        if isinstance(node, ast.Raise):
            skipped += [node.exc, node.cause]
        if isinstance(node, ast.keyword) and node.arg == "strict":
            skipped.append(node.value)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "TypeVar", "cast"):
            skipped += [*node.args, *node.keywords]
        for child in ast.iter_child_nodes(node):
            if not any(child is s for s in skipped):
                yield child

    # ---- what becomes of a node
    def _expressions(self, node: ast.AST) -> Iterator[ast.AST | None]:
        parent = self.parents[-1] if self.parents else None
        if isinstance(node, ast.Compare):
            for k, op in enumerate(node.ops):
                for other in _COMPARED[type(op)]:
                    yield _changed(node, ops=[*node.ops[:k], other(), *node.ops[k + 1 :]])
        elif (
            isinstance(node, ast.BinOp)
            and type(node.op) in _ARITHMETIC
            and not (_is_text(node.left) or _is_text(node.right))
        ):
            yield _changed(node, op=_ARITHMETIC[type(node.op)]())
        elif isinstance(node, ast.BoolOp):
            yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for k in range(len(node.values)):
                rest = [*node.values[:k], *node.values[k + 1 :]]
                yield rest[0] if len(rest) == 1 else _changed(node, values=rest)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
            yield node.operand
        elif isinstance(node, ast.Constant) and not isinstance(parent, ast.Expr):
            yield from _constants(node)
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield ast.Name(_NAMES[node.id])
        elif isinstance(node, ast.Call):
            yield from self._calls(node)
        elif isinstance(node, (ast.List, ast.Set, ast.Tuple)) and len(node.elts) > 1:
            tested = isinstance(parent, ast.Compare) and node in parent.comparators
            for k, element in enumerate(node.elts):
                if tested or isinstance(element, ast.Starred):
                    yield _changed(node, elts=[*node.elts[:k], *node.elts[k + 1 :]])
        elif isinstance(node, ast.IfExp):
            yield _changed(node, body=node.orelse, orelse=node.body)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for k, generator in enumerate(node.generators):
                for n in range(len(generator.ifs)):
                    less = _changed(generator, ifs=[*generator.ifs[:n], *generator.ifs[n + 1 :]])
                    yield _changed(node, generators=[*node.generators[:k], less, *node.generators[k + 1 :]])

    @staticmethod
    def _calls(node: ast.Call) -> Iterator[ast.AST]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _PLAIN:
            return
        first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        symmetric = name in ("min", "max") or (name == "emit" and (first in _COMMUTATIVE or len(node.args) == 2))
        if len(node.args) > 1 and not symmetric and not any(isinstance(a, ast.Starred) for a in node.args[-2:]):
            yield _changed(node, args=[*node.args[:-2], node.args[-1], node.args[-2]])
        if (
            len(node.args) == 1
            and not node.keywords
            and name.islower()
            and not isinstance(node.args[0], (ast.Starred, ast.GeneratorExp))
        ):
            yield node.args[0]
        for k, keyword in enumerate(node.keywords):
            if keyword.arg not in (None, "strict"):
                yield _changed(node, keywords=[*node.keywords[:k], *node.keywords[k + 1 :]])

    @staticmethod
    def _statements(node: ast.AST) -> Iterator[ast.AST | None]:
        if isinstance(node, (ast.If, ast.While)):
            test = node.test
            simple = (isinstance(test, ast.Compare) and len(test.ops) == 1) or isinstance(
                test, (ast.Constant, ast.UnaryOp)
            )
            if not simple:
                yield _Condition(test)
        elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        elif isinstance(node, (ast.Raise, ast.Delete, ast.Continue, ast.Break)):
            yield ast.Pass()
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield ast.Pass()
        elif isinstance(node, ast.AugAssign):
            if type(node.op) in _ARITHMETIC:
                yield _changed(node, op=_ARITHMETIC[type(node.op)]())
            yield ast.Pass()
        elif isinstance(node, ast.Assign) and all(isinstance(t, (ast.Attribute, ast.Subscript)) for t in node.targets):
            yield ast.Pass()

    # ---- text
    def _span(self, node: ast.AST) -> tuple[int, int]:
        at = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self.starts[at[0] - 1] + at[1], self.starts[at[2] - 1] + at[3]

    def _add(self, node: ast.AST, new: ast.AST | None) -> None:
        if new is None or (type(new) is type(node) and ast.dump(new) == ast.dump(node)):
            return
        place: ast.AST = node
        if isinstance(new, _Condition):
            place, text = new.test, f"not ({ast.unparse(new.test)})"
        else:
            text = ast.unparse(new)
            if isinstance(new, _LOOSE) and self.parents and isinstance(self.parents[-1], _BINDING):
                text = f"({text})"
            elif isinstance(new, ast.Tuple) and not text.startswith("("):
                text = f"({text})"
        start, end = self._span(place)
        low, high = self._context(start, end)
        before = self.raw[low:high].decode()
        after = (self.raw[low:start] + text.encode() + self.raw[end:high]).decode()
        name = f"{'.'.join(self.scope) or 'module'}: {_short(before)} -> {_short(after)}"
        self.found.append(Mutant(place.lineno, place.end_lineno, start, end, text, name))  # type: ignore[attr-defined]

    def _context(self, start: int, end: int) -> tuple[int, int]:
        """The smallest expression around that says where it is."""
        for node in reversed(self.parents):
            if end - start >= 16 or not isinstance(
                node, (ast.expr, ast.Assign, ast.AugAssign, ast.Return, ast.keyword)
            ):
                break
            start, end = self._span(node)
        return start, end


class _Condition(ast.AST):
    """The negation of a condition."""

    def __init__(self, test: ast.expr) -> None:
        self.test = test


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, (int, float)):
        yield ast.Constant(value + 1)
        if value == 1:
            yield ast.Constant(value - 1)
