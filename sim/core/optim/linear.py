"""Linear solvers on arrays in Warp's names: `cg`, `cr`, `bicgstab`, `gmres`, differentiable by the implicit function
theorem.

With A x = b, and xbar the gradient of the result, the adjoint is one more solve, with the transpose: A' lambda = xbar;
then lambda is the gradient of b, and -lambda x' that of A.  It holds as far as the solves have converged; what x held
before has no influence.  The vectors of a method are combined on the host, A is applied by launches.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, ClassVar, TypeVar

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.types import int32
from sim.core.optim import krylov
from sim.core.optim.krylov import Apply, Method, Watch
from sim.core.optim.linear_operators import LinearOperator as LinearOperator
from sim.core.optim.linear_operators import LinearSolverError as LinearSolverError
from sim.core.optim.linear_operators import Matrix, MatrixVector, numbers_of, scalar_of
from sim.core.optim.linear_operators import aslinearoperator as aslinearoperator
from sim.core.optim.linear_operators import preconditioner as preconditioner
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros, zeros_like
from sim.core.runtime.devices.graph import add_whole_node, suspend_capture
from sim.core.runtime.memory.buffer import before_write
from sim.core.runtime.tape.tape import Tape

Callback = Callable[[int, float, float], object]
Result = tuple[int, float, float] | tuple[array, array, array]


class LinearSolverState:
    """A method and a system: calling it solves the system from what x holds, in place, as often as one likes.

    A, b, x, tol, atol, maxiter, M, callback, check_every: as of `cg`.  use_cuda_graph: taken for Warp's programs.
    Returns the number of iterations, the norm of the residual and the tolerance (of several systems the largest); with
    check_every=0 three arrays: the number, and the squares of norm and tolerance of each system, which a captured graph
    fills anew.  Raises LinearSolverError for arrays that do not fit.
    """

    name: ClassVar[str]
    method: Method
    symmetric: ClassVar[bool] = False
    """Whether A is: then it is its own transpose, for the adjoint."""

    def __init__(
        self,
        A: Matrix,  # noqa: N803
        b: array,
        x: array,
        tol: float | None = None,
        atol: float | None = None,
        maxiter: float | None = 0,
        M: Matrix | None = None,  # noqa: N803
        callback: Callback | None = None,
        check_every: int = 10,
        use_cuda_graph: bool = True,
    ) -> None:
        self.operator, self.b, self.x = aslinearoperator(A), b, x
        self.inverse = None if M is None else aslinearoperator(M)
        self.limit, self.tolerances, self.callback, self.every = maxiter, (tol, atol), callback, check_every
        self._check(self.operator, b, x)
        self._results: tuple[array, array, array] | None = None
        if check_every == 0:
            count, kind = self.operator.batch_count, self.operator.scalar_type
            self._results = zeros(1, int32, x.device), zeros(count, kind, x.device), zeros(count, kind, x.device)

    def __call__(
        self,
        A: Matrix | None = None,  # noqa: N803
        b: array | None = None,
        x: array | None = None,
        M: Matrix | None = None,  # noqa: N803
    ) -> Result:
        """Solves it, or with others of the same kinds in place of what it was made with."""
        operator = self.operator if A is None else aslinearoperator(A)
        inverse = self.inverse if M is None else aslinearoperator(M)
        b, x = self.b if b is None else b, self.x if x is None else x
        self._check_layout(operator, b)
        self._check(operator, b, x)
        if observers.current() is not None:
            raise GradientError(
                f"forward mode does not go through {self.name}, whose derivative is a solve of reverse mode",
                hint="use sim.Tape and backward",
            )
        return _LinearSystem(self, operator, inverse, b, x).solve(self._results)

    def _check_layout(self, operator: LinearOperator, b: array) -> None:
        first = self.operator
        if operator.shape != first.shape or operator.dtype != first.dtype or b.shape != self.b.shape:
            raise LinearSolverError(
                f"{self.name}: made for a matrix of {first.shape} of {first.dtype} and b of {self.b.shape}, called with"
                f" {operator.shape} of {operator.dtype} and {b.shape}"
            )
        if operator.batch_offsets is not first.batch_offsets:
            raise LinearSolverError(f"{self.name}: batch_offsets is another array than the one it was made with")
        if operator.max_batch_length != first.max_batch_length:
            raise LinearSolverError(f"{self.name}: max_batch_length is not the one it was made with")

    def _check(self, operator: LinearOperator, b: array, x: array) -> None:
        name = self.name
        for what, a in (("b", b), ("x", x)):
            if a.device is not operator.device:
                raise LinearSolverError(f"{name}: {what} lies on {a.device}, the matrix on {operator.device}")
            if scalar_of(a.dtype) != operator.scalar_type:
                raise LinearSolverError(f"{name}: {what} has elements of {a.dtype}, the matrix of {operator.dtype}")
            if not a.is_contiguous:
                raise LinearSolverError(f"{name}: {what} is not contiguous; pass {what}.contiguous()")
        if b.shape != x.shape or b.dtype != x.dtype:
            raise LinearSolverError(f"{name}: b is of shape {b.shape} of {b.dtype}, x {x.shape} of {x.dtype}")
        rows, columns = operator.shape[0], operator.shape[-1]
        if rows != columns:
            raise LinearSolverError(f"{name}: the matrix has {rows} rows and {columns} columns")
        if rows not in (b.size, numbers_of(b).size):
            raise LinearSolverError(f"{name}: the matrix has {rows} rows, b {numbers_of(b).size} numbers")


class _Conjugate(LinearSolverState):
    """The methods for symmetric matrices.  restart: after so many iterations the residual is computed anew."""

    symmetric = True

    def __init__(self, method: Method, restart: int | None, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.method = krylov.confirmed(method) if restart is None else krylov.restarted(method, _positive(restart))


class CG(_Conjugate):
    """Conjugate gradients: see `cg`."""

    name = "cg"

    def __init__(self, *given: Any, restart: int | None = None, **named: Any) -> None:
        super().__init__(krylov.conjugate_gradients, restart, *given, **named)


class CR(_Conjugate):
    """Conjugate residuals: see `cr`."""

    name = "cr"

    def __init__(self, *given: Any, restart: int | None = None, **named: Any) -> None:
        super().__init__(krylov.conjugate_residuals, restart, *given, **named)


class BiCGSTAB(LinearSolverState):
    """BiCGSTAB: see `bicgstab`."""

    name = "bicgstab"

    def __init__(self, *given: Any, is_left_preconditioner: bool = False, **named: Any) -> None:
        super().__init__(*given, **named)
        method = krylov.bicgstab
        self.method = krylov.confirmed(krylov.from_the_left(method) if is_left_preconditioner else method)


class GMRES(LinearSolverState):
    """GMRES: see `gmres`."""

    name = "gmres"

    def __init__(
        self,
        A: Matrix,  # noqa: N803
        b: array,
        x: array,
        tol: float | None = None,
        atol: float | None = None,
        restart: int = 31,
        maxiter: float | None = 0,
        M: Matrix | None = None,  # noqa: N803
        callback: Callback | None = None,
        check_every: int = 31,
        use_cuda_graph: bool = True,
        is_left_preconditioner: bool = False,
    ) -> None:
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every)
        method = krylov.gmres(_positive(restart))
        self.method = krylov.confirmed(krylov.from_the_left(method) if is_left_preconditioner else method)


def _positive(restart: int) -> int:
    """Raises TypeError for what is no whole number."""
    if isinstance(restart, bool):
        raise TypeError(f"restart is {restart}; expected a number of iterations")
    if index(restart) < 1:
        raise LinearSolverError(f"restart is {restart}; expected at least 1")
    return index(restart)


# ------------------------------------------------------------------------------------------------ in one call
S = TypeVar("S", bound=LinearSolverState)


def cg(
    A: Matrix,  # noqa: N803
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Matrix | None = None,  # noqa: N803
    callback: Callback | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Result | CG:
    """Solves A x = b with conjugate gradients, for symmetric positive definite A, from what `x` holds, in place.

    tol, atol: it ends at |b - A x| <= max(tol |b|, atol); None: by the precision.  maxiter: 0: as many as unknowns.
    M: a preconditioner.  callback: called as (iteration, |b - A x|, tolerance), every `check_every` iterations.
    run: False returns a `CG`, to be called.  restart: after so many iterations the residual is computed anew, and is
    looked at only then.  use_cuda_graph: taken for Warp's programs.
    Returns and raises what `LinearSolverState` says.  On an open tape gradients go to b, and to the arrays that A is
    made of.
    """
    return _run(CG(A, b, x, tol, atol, maxiter, M, callback, check_every, restart=restart), run)


def cr(
    A: Matrix,  # noqa: N803
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Matrix | None = None,  # noqa: N803
    callback: Callback | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Result | CR:
    """As `cg`, with conjugate residuals, whose residual never grows; for symmetric A."""
    return _run(CR(A, b, x, tol, atol, maxiter, M, callback, check_every, restart=restart), run)


def bicgstab(
    A: Matrix,  # noqa: N803
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Matrix | None = None,  # noqa: N803
    callback: Callback | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Result | BiCGSTAB:
    """As `cg`, with BiCGSTAB, for any A.  is_left_preconditioner: M is applied to the equation, and to its residual."""
    left = is_left_preconditioner
    return _run(BiCGSTAB(A, b, x, tol, atol, maxiter, M, callback, check_every, is_left_preconditioner=left), run)


def gmres(
    A: Matrix,  # noqa: N803
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    restart: int = 31,
    maxiter: float | None = 0,
    M: Matrix | None = None,  # noqa: N803
    callback: Callback | None = None,
    check_every: int = 31,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Result | GMRES:
    """As `bicgstab`, with GMRES, begun anew every `restart` iterations."""
    left = is_left_preconditioner
    return _run(GMRES(A, b, x, tol, atol, restart, maxiter, M, callback, check_every, False, left), run)


def _run(solver: S, run: bool) -> Result | S:
    return solver() if run else solver


# ------------------------------------------------------------------------------------------------ one system
class _LinearSystem:
    """How a system is solved: once for x, and once for its adjoint."""

    def __init__(
        self, solver: LinearSolverState, operator: LinearOperator, inverse: LinearOperator | None, b: array, x: array
    ) -> None:
        self.solver, self.operator, self.inverse, self.b, self.x = solver, operator, inverse, b, x
        self.transposed = operator.transposed or (operator.matvec if solver.symmetric else None)

    def solve(self, results: tuple[array, array, array] | None) -> Result:
        """For x, recorded where a tape is open.  results: arrays to be filled."""
        b, x, name = self.b, self.x, self.solver.name
        found: list[tuple[int, float, float]] = []
        before_write(x, name)

        def run() -> None:
            watches = self._forward()
            found[:] = [krylov.worst(watches)]
            if results is not None:
                numbers_of_results = [found[0][0]], [w.norm**2 for w in watches], [w.atol**2 for w in watches]
                for a, numbers in zip(results, numbers_of_results, strict=True):
                    a.device.write(a, np.array(numbers, a.device.numpy(a).dtype))

        with recording.paused():
            add_whole_node(run, [b, x], [x, *(results or ())])
        x.buffer.version += 1
        if x.buffer.owners is not None:
            x.buffer.owners.written(x)
        tape = recording.current()
        if isinstance(tape, Tape):
            self._record(tape)
        return found[0] if results is None else results

    def _record(self, tape: Tape) -> None:
        parameters, b, x, name = self._parameters(), self.b, self.x, self.solver.name
        if not any(a.requires_grad for a in (b, *parameters)):
            return
        if not x.requires_grad:
            raise GradientError(f"{name}: x has no gradient", hint="make it with requires_grad=True")
        size = numbers_of(x).size
        covered = self.operator.batches(size)
        if covered[0].start or covered[-1].stop != size:
            raise GradientError(
                f"{name}: batch_offsets leave out some of the {size} unknowns, which have no adjoint",
                hint="solve a part of the arrays, b[:n] and x[:n], by itself",
            )
        tape.record_function(name, self._back, [b, *parameters], [], finals=[x])

    def _forward(self) -> list[Watch]:
        inverse = self.inverse.matvec if self.inverse is not None else None
        return self._run(self.operator.matvec, inverse, self.b, self.x, self.solver.callback)

    def _run(
        self, product: MatrixVector, inverse: MatrixVector | None, b: array, x: array, callback: Callback | None
    ) -> list[Watch]:
        given, start = _host(b), _host(x)
        parts = self.operator.batches(len(given))
        limit = self.solver.limit or max(1, len(given) // len(parts))
        watches = [Watch(self._tolerance(given[part]), limit) for part in parts]
        running = [
            self.solver.method(given[part], start[part], watch) for part, watch in zip(parts, watches, strict=True)
        ]
        apply, precondition = _applied(product, x), np.copy if inverse is None else _applied(inverse, x)
        krylov.run(
            running, parts, watches, krylov.Products(apply, precondition, len(given)), callback, self.solver.every
        )
        x.device.write(x, start.reshape(x.device.numpy(x).shape))
        return watches

    def _tolerance(self, b: np.ndarray) -> float:
        least = {8: 1e-16, 2: 1e-4}.get(b.dtype.itemsize, 1e-8)
        tol, atol = self.solver.tolerances
        tol, atol = (default if a is None else a for a, default in ((tol, atol), (atol, tol)))
        bound: float = least**0.75
        relative = (bound if tol is None else tol) * float(np.linalg.norm(b))
        return float(max(relative, bound if atol is None else atol, least**2.25))

    def _parameters(self) -> list[array]:
        """The arrays with a gradient that the matrix is made of: those which its product looks at."""
        like = self.b
        tape, vector, product = Tape(), zeros_like(like, requires_grad=False), zeros_like(like, requires_grad=True)
        with recording.paused(), suspend_capture(), tape:
            self.operator.matvec(vector, vector, product, 1.0, 0.0)
        return [a for a in tape.gradients if a.buffer is not product.buffer]

    def _back(self) -> None:
        """The adjoint: adds to the gradients of b and of the matrix, and takes that of x."""
        b, x = self.b, self.x
        gradient = x.grad
        assert gradient is not None
        if self.transposed is None:
            raise GradientError(
                f"the adjoint of {self.solver.name} needs the product of the transpose of the LinearOperator",
                hint="pass LinearOperator(..., transposed=matvec_of_the_transpose)",
            )
        adjoint = zeros(x.shape, x.dtype, x.device)
        inverse = self.inverse.transposed or self.inverse.matvec if self.inverse is not None else None
        self._run(self.transposed, inverse, gradient, adjoint, None)
        x.device.clear(gradient)
        if b.requires_grad and b.grad is not None:
            b.device.add(b.grad, adjoint)
        fixed, product = zeros(x.shape, x.dtype, x.device), zeros(x.shape, x.dtype, x.device, requires_grad=True)
        x.device.copy(fixed, x)
        tape = Tape()
        with tape:
            self.operator.matvec(fixed, fixed, product, -1.0, 0.0)
        if any(a.buffer is not product.buffer for a in tape.gradients):
            tape.backward(grads={product: adjoint})


def _host(a: array) -> np.ndarray:
    """The numbers of an array as a vector of their own."""
    return np.array(a.device.numpy(a)).reshape(-1)


def _applied(product: MatrixVector, like: array) -> Apply:
    """A product on NumPy vectors."""
    vector, result = (zeros(like.shape, like.dtype, like.device) for _ in range(2))
    shape = like.device.numpy(like).shape

    def apply(v: np.ndarray) -> np.ndarray:
        like.device.write(vector, v.reshape(shape))
        product(vector, result, result, 1.0, 0.0)
        return _host(result)

    return apply
