"""Matrices of any size in arrays of one dimension, row by row: products, Cholesky's factors, linear systems.

One thread works on one system.  All of it is differentiable: `dense_chol` by the array A, `dense_subs` by L and b.
Warp's `dense_solve`, whose gradient goes to A around the factor, is the same here as `dense_subs`: the gradient goes
through L to whoever made it.
"""

from __future__ import annotations

from sim.core.lang.frontend.builtins import sqrt, where
from sim.core.lang.library.export import export


@export
def dense_gemm(m, n, p, t1, t2, A, B, C):
    """C = op(A) op(B) for an m x p matrix op(A), a p x n matrix op(B): transposed where t1 (t2) is 1."""
    for i in range(m):
        for j in range(n):
            total = A.dtype(0)
            for k in range(p):
                total += A[where(t1 == 1, k * m + i, i * p + k)] * B[where(t2 == 1, j * p + k, k * n + j)]
            C[i * n + j] = total


@export
def dense_chol(n, A, regularization, L):
    """L, lower triangular, with A + regularization 1 = L L^T; above its diagonal L stays as it is."""
    for j in range(n):
        s = A[j * n + j] + regularization
        for k in range(j):
            s -= L[j * n + k] * L[j * n + k]
        s = sqrt(s)
        L[j * n + j] = s
        for i in range(j + 1, n):
            rest = A[i * n + j]
            for k in range(j):
                rest -= L[i * n + k] * L[j * n + k]
            L[i * n + j] = rest / s


@export
def dense_subs(n, L, b, x):
    """x with L L^T x = b, for the factor of `dense_chol`."""
    for i in range(n):
        s = b[i]
        for j in range(i):
            s -= L[i * n + j] * x[j]
        x[i] = s / L[i * n + i]
    for k in range(n):
        i = n - 1 - k
        s = x[i]
        for j in range(i + 1, n):
            s -= L[j * n + i] * x[j]
        x[i] = s / L[i * n + i]


@export
def dense_solve(n, A, L, b, x):
    """x with A x = b, for the factor L that `dense_chol` has made of A: as `dense_subs`."""
    dense_subs(n, L, b, x)
