"""Linear solvers on arrays in Warp's names: `cg`, `cr`, `bicgstab`, `gmres`, differentiable by the implicit function
theorem.

With A x = b, and xbar the gradient of the result, the adjoint is one more solve, with the transpose: A' lambda = xbar;
then lambda is the gradient of b, and -lambda x' that of A.  It holds as far as the solves have converged; what x held
before has no influence.  The vectors of a method are combined on the host, A is applied by launches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError, SimError
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.types import Homogeneous, Scalar, Type
from sim.core.optim import krylov
from sim.core.optim.krylov import Apply, Method, Watch
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros, zeros_like
from sim.core.runtime.devices.device import Device
from sim.core.runtime.devices.graph import add_whole_node, suspend_capture
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.memory.buffer import before_write
from sim.core.runtime.tape.tape import Tape

MatrixVector = Callable[[array, array, array, float, float], Any]
"""(x, y, z, alpha, beta): z = alpha A x + beta y; y and z may be one array."""


class LinearSolverError(SimError, ValueError, RuntimeError):
    """A system that the solvers cannot work on."""


@kernel
def _dense(a: array(dtype=Any, ndim=2), x: array[Any], y: array[Any], z: array[Any], alpha: Any, beta: Any):
    i = tid()
    total = x.dtype()
    for j in range(a.shape[1]):
        total += a[i, j] * x[j]
    z[i] = alpha * total + beta * y[i]


@kernel
def _diagonal(a: array[Any], x: array[Any], y: array[Any], z: array[Any], alpha: Any, beta: Any):
    i = tid()
    z[i] = alpha * a[i] * x[i] + beta * y[i]


@kernel
def _inverse_diagonal(a: array[Any], x: array[Any], y: array[Any], z: array[Any], alpha: Any, beta: Any, size: bool):
    i = tid()
    d = a[i]
    if size and d < a.dtype(0.0):
        d = -d
    scaled = x[i]
    if d != a.dtype(0.0):
        scaled = x[i] / d
    z[i] = alpha * scaled + beta * y[i]


class LinearOperator:
    """A matrix that is known by its product with a vector.

    shape: rows and columns, counted in numbers.  dtype: the type of its elements.
    matvec: called as (x, y, z, alpha, beta); launches what makes z = alpha A x + beta y.
    transposed: the same for the transpose of A; None: A is its own, or no gradient goes through `bicgstab` and `gmres`.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        device: Device,
        matvec: MatrixVector,
        batch_offsets: array | None = None,
        max_batch_length: int | None = None,
        transposed: MatrixVector | None = None,
    ) -> None:
        if batch_offsets is not None or max_batch_length is not None:
            raise LinearSolverError("batch_offsets: several systems in one are not supported; solve them one by one")
        self.shape, self.dtype, self.device = tuple(shape), dtype, device
        self.matvec, self.transposed = matvec, transposed
        self.diagonal: array | None = None
        """The diagonal, where it is known."""

    @property
    def scalar_type(self) -> Type:
        """The type of its numbers."""
        return _scalar(self.dtype)


Matrix = array | LinearOperator


def aslinearoperator(A: Matrix) -> LinearOperator:  # noqa: N803  Warp's name
    """A matrix as a LinearOperator: an array of two dimensions, or a diagonal, of numbers or vectors, of one."""
    if isinstance(A, LinearOperator):
        return A
    if not isinstance(A, array):
        raise LinearSolverError(
            f"a matrix is a {type(A).__name__}; expected an array, or a LinearOperator (sparse matrices are not"
            " supported: wrap their product as one)"
        )
    if A.ndim == 1 and isinstance(A.dtype, (Scalar, Homogeneous)) and len(getattr(A.dtype, "shape", ())) < 2:
        numbers = _numbers(A)
        product = partial(_apply, _diagonal, numbers)
        made = LinearOperator(A.shape, A.dtype, A.device, product, transposed=product)
        made.diagonal = numbers
        return made
    if A.ndim != 2 or not isinstance(A.dtype, Scalar):
        raise LinearSolverError(f"a matrix is an array of shape {A.shape} of {A.dtype}; expected two dimensions")
    made = LinearOperator(
        A.shape, A.dtype, A.device, partial(_apply, _dense, A), transposed=partial(_apply, _dense, A.transpose())
    )
    made.diagonal = _diagonal_of(A)
    return made


def preconditioner(A: Matrix, ptype: str = "diag") -> LinearOperator | None:  # noqa: N803
    """An approximate inverse: "diag" (Jacobi), "diag_abs" (by the sizes of the diagonal), or "id": None.

    Rows with a zero on the diagonal are left as they are.
    """
    if ptype == "id":
        return None
    if ptype not in ("diag", "diag_abs"):
        raise LinearSolverError(f"there is no preconditioner {ptype!r}; use 'diag', 'diag_abs' or 'id'")
    operator = aslinearoperator(A)
    if operator.diagonal is None:
        raise LinearSolverError(
            f"preconditioner {ptype!r}: the diagonal of a LinearOperator is not known; make one of your own"
        )
    diagonal = operator.diagonal

    def product(x: array, y: array, z: array, alpha: float, beta: float) -> None:
        _apply(_inverse_diagonal, diagonal, x, y, z, alpha, beta, ptype == "diag_abs")

    return LinearOperator(operator.shape, operator.dtype, operator.device, product, transposed=product)


def _apply(product: Any, a: array, x: array, y: array, z: array, alpha: float, beta: float, *more: bool) -> None:
    """A kernel on the numbers of vectors."""
    make = a.dtype.np.type
    out = _numbers(z)
    launch(product, out.shape, [a, _numbers(x), _numbers(y), out, make(alpha), make(beta), *more], device=z.device)


def _numbers(a: array) -> array:
    """An array of numbers or vectors as one of numbers."""
    return a.view(a.dtype.dtype).flatten() if isinstance(a.dtype, Homogeneous) else a.flatten() if a.ndim > 1 else a


def _scalar(dtype: Any) -> Any:
    return dtype.dtype if isinstance(dtype, Homogeneous) else dtype


def _diagonal_of(a: array) -> array:
    """The diagonal of a dense matrix, as a view."""
    made: array = array(
        ptr=a.ptr,
        shape=(min(a.shape),),
        strides=(sum(a.strides),),
        dtype=a.dtype,
        device=a.device,
    )
    return made


# ------------------------------------------------------------------------------------------------ the solvers
Callback = Callable[[int, float, float], object]
Result = tuple[int, float, float]


def cg(
    A: Matrix,  # noqa: N803
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: int | None = 0,
    M: Matrix | None = None,  # noqa: N803
    callback: Callback | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
) -> Result:
    """Solves A x = b with conjugate gradients, for symmetric positive definite A, from what `x` holds, in place.

    tol, atol: it ends at |b - A x| <= max(tol |b|, atol); None: by the precision.  maxiter: 0: as many as unknowns.
    M: a preconditioner.  callback: called as (iteration, |b - A x|, tolerance), every `check_every` iterations.
    Returns the number of iterations, the norm of the residual and the tolerance.  Raises LinearSolverError for arrays
    that do not fit.  On an open tape gradients go to b, and to the arrays that A is made of.
    """
    return _solve("cg", krylov.conjugate_gradients, True, A, b, x, tol, atol, maxiter, M, callback, check_every)


def cr(
    A: Matrix,  # noqa: N803
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: int | None = 0,
    M: Matrix | None = None,  # noqa: N803
    callback: Callback | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
) -> Result:
    """As `cg`, with conjugate residuals, whose residual never grows; for symmetric A."""
    return _solve("cr", krylov.conjugate_residuals, True, A, b, x, tol, atol, maxiter, M, callback, check_every)


def bicgstab(
    A: Matrix,  # noqa: N803
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: int | None = 0,
    M: Matrix | None = None,  # noqa: N803
    callback: Callback | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
) -> Result:
    """As `cg`, with BiCGSTAB, for any A.  is_left_preconditioner: M is applied to the equation, and to its residual."""
    method = _from_the_left(krylov.bicgstab) if is_left_preconditioner else krylov.bicgstab
    return _solve("bicgstab", method, False, A, b, x, tol, atol, maxiter, M, callback, check_every)


def gmres(
    A: Matrix,  # noqa: N803
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    restart: int = 31,
    maxiter: int | None = 0,
    M: Matrix | None = None,  # noqa: N803
    callback: Callback | None = None,
    check_every: int = 31,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
) -> Result:
    """As `bicgstab`, with GMRES, begun anew every `restart` iterations."""
    if restart < 1:
        raise LinearSolverError(f"gmres: restart is {restart}; expected at least 1")
    method = krylov.gmres(restart)
    method = _from_the_left(method) if is_left_preconditioner else method
    return _solve("gmres", method, False, A, b, x, tol, atol, maxiter, M, callback, check_every)


def _from_the_left(method: Method) -> Method:
    """A method for M A x = M b."""

    def preconditioned(apply: Apply, precondition: Apply, b: np.ndarray, x: np.ndarray, watch: Watch) -> None:
        method(lambda v: precondition(apply(v)), np.copy, precondition(b), x, watch)

    return preconditioned


def _solve(
    name: str,
    method: Method,
    symmetric: bool,
    matrix: Matrix,
    b: array,
    x: array,
    tol: float | None,
    atol: float | None,
    maxiter: int | None,
    inverse: Matrix | None,
    callback: Callback | None,
    check_every: int,
) -> Result:
    operator = aslinearoperator(matrix)
    _check(name, operator, b, x)
    if observers.current() is not None:
        raise GradientError(
            f"forward mode does not go through {name}, whose derivative is a solve of reverse mode",
            hint="use sim.Tape and backward",
        )
    settings = _Settings(name, method, symmetric, operator, tol, atol, maxiter, inverse, check_every)
    found: dict[str, Watch] = {}
    before_write(x, name)
    with recording.paused():
        add_whole_node(lambda: found.update(last=settings.run(b, x, callback)), [b, x], [x])
    x.buffer.version += 1
    if x.buffer.owners is not None:
        x.buffer.owners.written(x)
    tape = recording.current()
    if isinstance(tape, Tape):
        parameters = settings.parameters(b)
        if any(a.requires_grad for a in (b, *parameters)):
            if not x.requires_grad:
                raise GradientError(f"{name}: x has no gradient", hint="make it with requires_grad=True")
            tape.record_function(name, partial(settings.back, b, x), [b, *parameters], [], finals=[x])
    watch = found["last"]
    return watch.count, watch.norm, watch.atol


def _check(name: str, operator: LinearOperator, b: array, x: array) -> None:
    for what, a in (("b", b), ("x", x)):
        if a.device is not operator.device:
            raise LinearSolverError(f"{name}: {what} lies on {a.device}, the matrix on {operator.device}")
        if _scalar(a.dtype) != operator.scalar_type:
            raise LinearSolverError(f"{name}: {what} has elements of {a.dtype}, the matrix of {operator.dtype}")
        if not a.is_contiguous:
            raise LinearSolverError(f"{name}: {what} is not contiguous; pass {what}.contiguous()")
    if b.shape != x.shape or b.dtype != x.dtype:
        raise LinearSolverError(f"{name}: b is of shape {b.shape} of {b.dtype}, x {x.shape} of {x.dtype}")
    rows, columns = operator.shape[0], operator.shape[-1]
    if rows != columns:
        raise LinearSolverError(f"{name}: the matrix has {rows} rows and {columns} columns")
    if rows not in (b.size, _numbers(b).size):
        raise LinearSolverError(f"{name}: the matrix has {rows} rows, b {_numbers(b).size} numbers")


class _Settings:
    """How a system is solved: once for x, and once for its adjoint."""

    def __init__(
        self,
        name: str,
        method: Method,
        symmetric: bool,
        operator: LinearOperator,
        tol: float | None,
        atol: float | None,
        maxiter: int | None,
        inverse: Matrix | None,
        check_every: int,
    ) -> None:
        self.name, self.method, self.operator, self.every = name, method, operator, check_every
        self.transposed = operator.transposed or (operator.matvec if symmetric else None)
        self.inverse = None if inverse is None else aslinearoperator(inverse)
        self.limit, self.tolerances = maxiter, (tol, atol)

    def run(self, b: array, x: array, callback: Callback | None = None) -> Watch:
        inverse = self.inverse.matvec if self.inverse is not None else None
        return self._run(self.operator.matvec, inverse, b, x, callback)

    def _run(
        self, product: MatrixVector, inverse: MatrixVector | None, b: array, x: array, callback: Callback | None
    ) -> Watch:
        given, start = _host(b), _host(x)
        least = {8: 1e-16, 2: 1e-4}.get(start.dtype.itemsize, 1e-8)
        tol, atol = self.tolerances
        tol, atol = (default if a is None else a for a, default in ((tol, atol), (atol, tol)))
        bound = least**0.75
        bound = max(
            (bound if tol is None else tol) * float(np.linalg.norm(given)), bound if atol is None else atol, least**2.25
        )
        watch = Watch(bound, self.limit or len(given), callback, self.every)
        apply = _applied(product, x)
        precondition = np.copy if inverse is None else _applied(inverse, x)
        self.method(apply, precondition, given, start, watch)
        x.device.write(x, start.reshape(x.device.numpy(x).shape))
        return watch

    def parameters(self, like: array) -> list[array]:
        """The arrays with a gradient that the matrix is made of: those which its product looks at."""
        tape, vector, product = Tape(), zeros_like(like, requires_grad=False), zeros_like(like, requires_grad=True)
        with recording.paused(), suspend_capture(), tape:
            self.operator.matvec(vector, vector, product, 1.0, 0.0)
        return [a for a in tape.gradients if a.buffer is not product.buffer]

    def back(self, b: array, x: array) -> None:
        """The adjoint: adds to the gradients of b and of the matrix, and takes that of x."""
        gradient = x.grad
        assert gradient is not None
        if self.transposed is None:
            raise GradientError(
                f"the adjoint of {self.name} needs the product of the transpose of the LinearOperator",
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
