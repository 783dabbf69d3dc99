"""The sparse matrix of a step: its pattern once, its values by index maps, its factor by SuperLU.

SuperLU (J. Demmel, S. Eisenstat, J. Gilbert, X. Li, J. Liu, "A Supernodal Approach to Sparse Partial Pivoting", 1999)
orders by minimum degree and pivots.  Damping makes the matrix unsymmetric, and far from equilibrium it is indefinite:
both are beyond LDL^T without pivoting, which is no faster on the meshes of this project (measured with QDLDL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Block = tuple[np.ndarray, np.ndarray]
"""Rows (K, a) and columns (K, b) of K dense blocks; -1 where a row or column is not there."""


class SingularStep(ArithmeticError):
    """A matrix without a factor."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where the entries of dense blocks go in a matrix in compressed columns.

    chosen: the entries of the blocks, one after the other, that are there; place: where each of these is added.
    symmetric: whether its diagonal may be relied on, so that rows and columns stay where they are.
    """

    size: int
    symmetric: bool
    chosen: np.ndarray
    place: np.ndarray
    indices: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, size: int, blocks: Sequence[Block], symmetric: bool) -> Pattern:
        """The pattern of a square matrix that is the sum of these blocks."""
        rows = np.concatenate([np.broadcast_to(r[:, :, None], (*r.shape, c.shape[1])).ravel() for r, c in blocks])
        columns = np.concatenate([np.broadcast_to(c[:, None, :], (*r.shape, c.shape[1])).ravel() for r, c in blocks])
        chosen = np.flatnonzero((rows >= 0) & (columns >= 0))
        keys, place = np.unique(columns[chosen].astype(np.int64) * size + rows[chosen], return_inverse=True)
        starts = np.searchsorted(keys, np.arange(size + 1, dtype=np.int64) * size)
        return cls(size, symmetric, chosen, place, (keys % max(size, 1)).astype(np.int32), starts.astype(np.int32))

    def factor(self, values: Sequence[np.ndarray]) -> Any:
        """The factor of the matrix with these values of the blocks.  Raises SingularStep."""
        from scipy.sparse import csc_matrix  # a quarter of a second to import, for those who use this solver
        from scipy.sparse.linalg import splu

        entries = np.concatenate([v.ravel() for v in values])[self.chosen]
        if not np.isfinite(entries).all():
            raise SingularStep("its matrix is not finite")
        data = np.bincount(self.place, entries, len(self.indices))
        matrix = csc_matrix((data, self.indices, self.starts), (self.size, self.size))
        try:
            if self.symmetric:
                options = {"SymmetricMode": True}
                return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=1e-3, options=options)
            return splu(matrix)
        except RuntimeError as error:
            raise SingularStep("its matrix is singular") from error
