"""Matrices that are known by their products, in Warp's names, and preconditioners made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sim.core.lang.errors import SimError
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.types import Homogeneous, Scalar, Type, float64, int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.device import DeviceLike, get_device
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch

MatrixVector = Callable[[array, array, array, float, float], Any]
"""(x, y, z, alpha, beta): z = alpha A x + beta y; y and z may be one array."""


class LinearSolverError(SimError, ValueError, RuntimeError):
    """A system that the solvers cannot work on."""


@kernel
def _dense(a: array(dtype=Any, ndim=2), x: array[Any], y: array[Any], z: array[Any], alpha: Any, beta: Any):
    i = tid()
    total = float64(0.0)  # a residual is a small difference of large sums
    for j in range(a.shape[1]):
        total += float64(a[i, j]) * float64(x[j])
    z[i] = z.dtype(float64(alpha) * total + float64(beta) * float64(y[i]))


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
    device: where its vectors lie, or the name of that.
    matvec: called as (x, y, z, alpha, beta); launches what makes z = alpha A x + beta y.
    batch_offsets: where the systems begin that stand side by side in one of a block-diagonal matrix, and the end of the
        last, in numbers (int32); each is solved by itself.  What stands behind the end is not touched.
    max_batch_length: how long the longest is, or more; a solver that is called again holds to it.
    transposed: the same for the transpose of A; None: A is its own, or no gradient goes through `bicgstab` and `gmres`.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        device: DeviceLike,
        matvec: MatrixVector,
        batch_offsets: array | None = None,
        max_batch_length: int | None = None,
        transposed: MatrixVector | None = None,
    ) -> None:
        if max_batch_length is not None and batch_offsets is None:
            raise LinearSolverError("max_batch_length requires batch_offsets")
        if batch_offsets is not None and (
            batch_offsets.ndim != 1 or batch_offsets.size < 2 or batch_offsets.dtype is not int32
        ):
            raise LinearSolverError(
                f"batch_offsets has shape {batch_offsets.shape} of {batch_offsets.dtype}; expected one dimension of"
                " int32, with two elements at least"
            )
        self.shape, self.dtype, self.device = tuple(shape), dtype, get_device(device)
        self.matvec, self.transposed = matvec, transposed
        self.batch_offsets, self.max_batch_length = batch_offsets, max_batch_length
        self.diagonal: array | None = None
        """The diagonal, where it is known."""

    @property
    def scalar_type(self) -> Type:
        """The type of its numbers."""
        return scalar_of(self.dtype)

    @property
    def batch_count(self) -> int:
        """How many systems stand side by side."""
        return 1 if self.batch_offsets is None else self.batch_offsets.size - 1

    def batches(self, size: int) -> list[slice]:
        """Where they stand in a vector of so many numbers.  Raises LinearSolverError for offsets that cannot be."""
        if self.batch_offsets is None:
            return [slice(0, size)]
        ends = self.batch_offsets.numpy().tolist()
        if ends != sorted(ends) or ends[0] < 0 or ends[-1] > size:
            raise LinearSolverError(f"batch_offsets are {ends}, for vectors of {size} numbers")
        return [slice(low, high) for low, high in zip(ends, ends[1:], strict=False)]


Matrix = array | LinearOperator


def aslinearoperator(
    A: Matrix,  # noqa: N803  Warp's name
    batch_offsets: array | None = None,
    max_batch_length: int | None = None,
) -> LinearOperator:
    """A matrix as a LinearOperator: an array of two dimensions, or a diagonal, of numbers or vectors, of one.

    batch_offsets, max_batch_length: those of the result, if it has none.
    """
    if isinstance(A, LinearOperator) and batch_offsets is None and max_batch_length is None:
        return A
    if isinstance(A, LinearOperator):
        product, transposed, diagonal, shape = A.matvec, A.transposed, A.diagonal, A.shape
    else:
        product, transposed, diagonal = _products(A)
        shape = A.shape
    made = LinearOperator(shape, A.dtype, A.device, product, batch_offsets, max_batch_length, transposed)
    made.diagonal = diagonal
    return made


def _products(A: Any) -> tuple[MatrixVector, MatrixVector, array]:  # noqa: N803
    """The product of an array with vectors, that of its transpose, and its diagonal."""
    if not isinstance(A, array):
        raise LinearSolverError(
            f"a matrix is a {type(A).__name__}; expected an array, or a LinearOperator (sparse matrices are not"
            " supported: wrap their product as one)"
        )
    if A.ndim == 1 and isinstance(A.dtype, (Scalar, Homogeneous)) and len(getattr(A.dtype, "shape", ())) < 2:
        diagonal = numbers_of(A)
        product = partial(_apply, _diagonal, diagonal)
        return product, product, diagonal
    if A.ndim != 2 or not isinstance(A.dtype, Scalar):
        raise LinearSolverError(f"a matrix is an array of shape {A.shape} of {A.dtype}; expected two dimensions")
    return partial(_apply, _dense, A), partial(_apply, _dense, A.transpose()), _diagonal_of(A)


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
    out = numbers_of(z)
    launch(product, out.shape, [a, numbers_of(x), numbers_of(y), out, make(alpha), make(beta), *more], device=z.device)


def numbers_of(a: array) -> array:
    """An array of numbers or vectors as one of numbers."""
    return a.view(a.dtype.dtype).flatten() if isinstance(a.dtype, Homogeneous) else a.flatten() if a.ndim > 1 else a


def scalar_of(dtype: Any) -> Any:
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
