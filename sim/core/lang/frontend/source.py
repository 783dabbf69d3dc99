"""Python functions as source: parsed once, with places for messages, and the names that they refer to."""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import CodeType
from typing import Any

from sim.core.lang.errors import KernelError, Span
from sim.core.lang.references import ref
from sim.core.lang.types import Scalar, Type, as_type, float32, is_open

MISSING = inspect.Parameter.empty
_PACKAGE = __name__.partition(".")[0]
_CLOSERS = (")", "]", "}")


def own_module(name: str | None) -> bool:
    """Whether a module is one of this package."""
    return name is not None and (name == _PACKAGE or name.startswith(f"{_PACKAGE}."))


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of a function of the language.

    type:    what its annotation says (an `ArrayType` with `dtype` None for arrays of anything), or None: taken from the
             argument.
    default: a Python value, or `MISSING`.
    by_reference: whether the function changes it for its caller.
    """

    name: str
    type: Type | None
    default: Any = MISSING
    by_reference: bool = False

    @property
    def required(self) -> bool:
        return self.default is MISSING


class FunctionSource:
    """The syntax tree of a function, and where it stands in its file."""

    def __init__(self, python: Callable[..., Any]) -> None:
        code = python.__code__
        self.file, self.name = code.co_filename, python.__name__
        first = code.co_firstlineno
        lines = _lines_now(self.file, python.__globals__)
        tree = _parse_block(lines, first) if lines else None
        if tree is None:
            tree = self._parse_slowly(python, Span(self.file, first))
        self.offset, node = tree
        if code.co_name == "<lambda>" or isinstance(node, ast.AsyncFunctionDef):
            what = "a lambda" if code.co_name == "<lambda>" else f"`{self.name}`, which is not a plain function"
            raise KernelError(
                f"{what} cannot become a kernel or a function of the language", Span(self.file, first), "write a `def`"
            )
        if not isinstance(node, ast.FunctionDef) or not _is_of(node, code):
            raise KernelError(
                f"the source text of `{self.name}` cannot be read: something else stands where it was",
                Span(self.file, first),
                "kernels and functions have to stand in a file (or a notebook cell); start again if that has changed",
            )
        self.node: ast.FunctionDef = node
        self._lines = lines

    @staticmethod
    def _parse_slowly(python: Callable[..., Any], span: Span) -> tuple[int, ast.stmt]:
        """By the rules of `inspect`, for layouts that the quick look at indentation gets wrong."""
        try:
            text, first = inspect.getsourcelines(python)
        except (OSError, TypeError):
            raise KernelError(
                f"the source text of `{python.__name__}` cannot be read",
                span,
                "kernels and functions have to stand in a file (or a notebook cell)",
            ) from None
        try:
            return first - 2, _first_statement("".join(text))
        except SyntaxError:
            raise KernelError(
                f"the source text of `{python.__name__}` cannot be parsed on its own",
                span,
                "write it as a `def` of its own, not inside an expression",
            ) from None

    def span(self, node: ast.AST) -> Span:
        """The place of a node (kept on the node: asked for often)."""
        found = getattr(node, "_span", None)
        if found is None:
            line = getattr(node, "lineno", self.node.lineno) + self.offset
            text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
            col = getattr(node, "col_offset", 0)
            if not text.isascii():
                col = len(text.encode()[:col].decode(errors="ignore"))
            found = Span(self.file, line, col + 1, text.rstrip("\n"))
            node._span = found  # type: ignore[attr-defined]
        return found


def remember_lines(python: Callable[..., Any]) -> None:
    """Reads the file of a function, once: it may be gone when the function is parsed, at its first use."""
    linecache.getlines(python.__code__.co_filename, python.__globals__)


def _lines_now(file: str, space: dict[str, Any]) -> list[str]:
    """The lines of a file, which may have been edited since it was imported (notebooks, reloads), or deleted."""
    kept = linecache.cache.get(file)
    linecache.checkcache(file)
    lines = linecache.getlines(file, space)
    if not lines and kept is not None and len(kept) > 1:
        linecache.cache[file] = kept
        lines = list(kept[2])
    return lines


def _first_statement(text: str) -> ast.stmt:
    # the wrapper keeps columns (and the text of multi-line strings) as they are, whatever the indentation
    indented = text[:1] in " \t"
    tree = ast.parse(("if 1:\n" if indented else "\n") + text)
    top = tree.body[0]
    return top.body[0] if indented else top  # type: ignore[attr-defined]


def _parse_block(lines: list[str], first: int) -> tuple[int, ast.stmt] | None:
    """The definition whose first line (decorators included) is number `first`: cut out by indentation, or None."""
    if not 0 < first <= len(lines):
        return None
    indent = len(lines[first - 1]) - len(lines[first - 1].lstrip())
    end, seen_def = first - 1, False
    for end in range(first - 1, len(lines)):
        text = lines[end].lstrip()
        shallow = len(lines[end]) - len(text) <= indent
        if text and not text.startswith("#") and shallow and seen_def and not text.startswith(_CLOSERS):
            break
        seen_def = seen_def or text.startswith("def ")
    else:
        end = len(lines)
    try:
        return first - 2, _first_statement("".join(lines[first - 1 : end]))
    except SyntaxError:
        return None


def _is_of(node: ast.FunctionDef, code: CodeType) -> bool:
    """Whether a definition may be the one that the code was made of: code made of a string has the file name, and the
    line, of other such code."""
    own = node.args
    count = len(own.posonlyargs) + len(own.args)
    return (node.name, count, len(own.kwonlyargs)) == (code.co_name, code.co_argcount, code.co_kwonlyargcount)


class LambdaSource(FunctionSource):
    """A lambda, as a definition that returns its expression."""

    def __init__(self, python: Callable[..., Any]) -> None:
        code = python.__code__
        self.file, self.name, self.offset = code.co_filename, "lambda", 0
        self._lines = _lines_now(self.file, python.__globals__)
        if not self._lines:
            raise KernelError("the source text of a lambda cannot be read", Span(self.file, code.co_firstlineno))
        self.node = _lambda_as_function(self._lines, code)


def _lambda_as_function(lines: list[str], code: CodeType) -> ast.FunctionDef:
    """The lambda in the file that stands where its code says."""
    span = Span(code.co_filename, code.co_firstlineno, 1, lines[code.co_firstlineno - 1].rstrip())
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        raise KernelError("the source text of a lambda cannot be parsed", span, "write a `def`") from None
    here = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    if len(here) > 1:  # by the columns of its instructions
        columns = {(line, column) for line, _, column, _ in code.co_positions() if line and column is not None}
        here = [n for n in here if any(_within(n.body, *place) for place in columns)]
        here = here[-1:] if all(_within(a.body, b.lineno, b.col_offset) for a, b in pairwise(here)) else here
    if len(here) != 1:
        raise KernelError("several lambdas in one line: which is meant is not known", span, "write a `def`")
    body = ast.copy_location(ast.Return(here[0].body), here[0].body)
    made = ast.FunctionDef(name="lambda", args=here[0].args, body=[body], decorator_list=[], returns=None)
    return ast.fix_missing_locations(ast.copy_location(made, here[0]))


def _within(node: ast.expr, line: int, column: int) -> bool:
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return (node.lineno, node.col_offset) <= (line, column) < end


class Scope:
    """The names that a function sees outside of itself: its closure, its module, Python's builtins."""

    def __init__(self, python: Callable[..., Any]) -> None:
        self._globals = python.__globals__
        self._cells = dict(zip(python.__code__.co_freevars, python.__closure__ or (), strict=True))

    def find(self, name: str) -> Any:
        """The value of a name now, or `MISSING`."""
        cell = self._cells.get(name)
        if cell is not None:
            try:
                return cell.cell_contents
            except ValueError:  # assigned later in the enclosing function
                return MISSING
        if name in self._globals:
            return self._globals[name]
        return getattr(builtins, name, MISSING)

    def cell(self, name: str) -> Any:
        """The closure's cell of a name, or None."""
        return self._cells.get(name)

    def holds(self, x: Any) -> bool:
        """Whether an object is bound to a name of the closure."""
        return any(self.find(name) is x for name in self._cells)

    def names(self) -> list[str]:
        return [*self._cells, *self._globals, *dir(builtins)]

    def namespace(self) -> dict[str, Any]:
        """All names as a dictionary, for `static(...)` and annotations in strings."""
        out = dict(self._globals)
        for name in self._cells:
            value = self.find(name)
            if value is not MISSING:
                out[name] = value
        return out


Position = tuple[int, int, int | None, int | None]
"""Line and column of the beginning and the end of an expression: `f` and `f(1)` begin in one place."""


def position(node: ast.expr) -> Position:
    """Where an expression stands in its source."""
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def values_of_static(source: FunctionSource, scope: Scope, code: CodeType) -> dict[Position, Any]:
    """What each outermost `static(...)` of a function is now, where it is defined, by where it stands.

    Left out, to be evaluated while tracing: what names a variable of the function, and what fails.
    """
    local = {*code.co_varnames, *code.co_cellvars}
    values: dict[Position, Any] = {}
    space: dict[str, Any] | None = None
    left: list[ast.AST] = list(source.node.body)
    while left:
        node = left.pop(0)
        if not (isinstance(node, ast.Call) and len(node.args) == 1 and _names_static(node.func, scope)):
            left[:0] = ast.iter_child_nodes(node)
        elif not any(isinstance(part, ast.Name) and part.id in local for part in ast.walk(node.args[0])):
            space = space if space is not None else scope.namespace()
            with contextlib.suppress(Exception):
                expression = compile(ast.Expression(node.args[0]), source.file, "eval")
                values[position(node)] = eval(expression, space)  # noqa: S307 the user's own expression
    return values


def _names_static(callee: ast.expr, scope: Scope) -> bool:
    """Whether a name, or an attribute of a module, is the language's `static`."""
    if isinstance(callee, ast.Name):
        found = scope.find(callee.id)
    elif isinstance(callee, ast.Attribute) and callee.attr == "static" and isinstance(callee.value, ast.Name):
        found = getattr(scope.find(callee.value.id), "static", None)
    else:
        return False
    return is_static(found)


def is_static(found: Any) -> bool:
    """Whether something is the language's `static`."""
    own = getattr(found, "__dict__", {})
    return own.get("lazy") is True and own.get("name") == "static"


def resolve_annotations(python: Callable[..., Any], caller: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Annotations with those written as strings evaluated; `caller`: local names where the function is defined."""
    raw = dict(getattr(python, "__annotations__", {}))
    if any(isinstance(v, str) for v in raw.values()):
        space = Scope(python).namespace()
        for key, text in raw.items():
            if isinstance(text, str):
                try:
                    raw[key] = eval(text, space, dict(caller or {}))  # noqa: S307 what Python itself would evaluate
                except Exception as problem:
                    raise KernelError(
                        f"the annotation '{text}' of `{key}` cannot be evaluated: {problem}",
                        annotation_span(python, key),
                    ) from None
    return raw


def annotation_span(python: Callable[..., Any], name: str) -> Span:
    """Where the annotation of a parameter (or of "return") stands; else the parameter, or the function."""
    code = python.__code__
    try:
        source = FunctionSource(python)
    except KernelError:
        return Span(code.co_filename, code.co_firstlineno)
    args = source.node.args
    found = next((a for a in (*args.posonlyargs, *args.args, *args.kwonlyargs) if a.arg == name), None)
    node = source.node.returns if name == "return" else found.annotation or found if found is not None else None
    return source.span(node if node is not None else source.node)


def caller_locals(depth: int = 1) -> Mapping[str, Any] | None:
    """Local names of the caller's caller (None at module level): postponed annotations may need them."""
    frame = sys._getframe(depth + 1)
    return None if frame.f_locals is frame.f_globals else frame.f_locals


def signature(
    python: Callable[..., Any], real: Scalar = float32, annotations: Mapping[str, Any] | None = None
) -> list[KernelParameter]:
    """Parameters of a Python function with their types; `float` as an annotation means `real`.

    `annotations`: already evaluated ones (`resolve_annotations`), for names that only the place of definition knows.
    """
    code = python.__code__
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        first = linecache.getline(code.co_filename, code.co_firstlineno).rstrip()
        span = Span(code.co_filename, code.co_firstlineno, 1, first)
        raise KernelError(f"`{python.__name__}` takes *args or **kwargs", span, "name every parameter")
    known = resolve_annotations(python) if annotations is None else annotations
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(
        zip(
            names[code.co_argcount - len(python.__defaults__ or ()) : code.co_argcount],
            python.__defaults__ or (),
            strict=True,
        )
    )
    defaults.update(python.__kwdefaults__ or {})
    out = []
    for name in names:
        spec = known.get(name)
        try:
            ty = annotated_type(spec.value if isinstance(spec, ref) else spec, real)
        except TypeError as problem:
            raise KernelError(
                f"the annotation of `{name}` in `{python.__name__}`: {problem}", annotation_span(python, name)
            ) from None
        out.append(KernelParameter(name, ty, defaults.get(name, MISSING), isinstance(spec, ref)))
    return out


def result_type(spec: Any, real: Scalar) -> Any:
    """The type that the annotation of a result stands for, of `tuple[...]` a tuple; None where any will do, or where
    it is for other tools than this one."""
    if getattr(spec, "__origin__", None) is tuple and Ellipsis not in spec.__args__:
        return tuple(result_type(part, real) for part in spec.__args__)
    try:
        return annotated_type(spec, real)
    except (TypeError, ValueError):  # NumPy finds a dtype in an array, and no type in that
        return None


def annotated_type(spec: Any, real: Scalar) -> Type | None:
    """The type that an annotation stands for; None where any type will do."""
    if spec is None or spec is Any or spec is tuple or spec is Callable or is_open(spec):
        return None
    if spec is float:
        return real
    if getattr(spec, "__origin__", None) in (tuple, Callable):
        return None
    if isinstance(spec, type) and spec.__name__ in ("Function", "Builtin"):
        return None
    return as_type(spec)
