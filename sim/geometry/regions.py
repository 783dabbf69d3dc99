"""Elements and their neighbourhood: which region each lies in, which of them are neighbours."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from sim.geometry.errors import GeometryError, listed


def assign_regions(elements: np.ndarray, regions: Mapping[str, np.ndarray], meet: bool = False) -> np.ndarray:
    """The number (n,) int32 of the region that each element lies in, counted in the order of `regions`.

    elements: (n, k) points; regions: name -> its points.  An element lies in the region that holds most of its points,
    and at least half of them; between equal ones (an edge from one region to another) in the first.  Raises
    GeometryError, with counts, where regions share points (unless they may `meet` in some, as parts of a mesh do), an
    element lies in none, or a region has none.
    """
    names = list(regions)
    for a, b in [] if meet else combinations(names, 2):
        both = np.intersect1d(regions[a], regions[b])
        if len(both):
            raise GeometryError(
                f"{len(both)} points lie in `{a}` and in `{b}`: {listed(both)}",
                "Choose the points so that none is in two regions; what lies between two goes to the first of them",
            )
    held = np.stack([np.isin(elements, points).sum(axis=1) for points in regions.values()])
    outside = np.flatnonzero(2 * held.max(axis=0) < elements.shape[1])
    if len(outside):
        raise GeometryError(
            f"{len(outside)} of {len(elements)} elements lie in no region: {listed(outside)}",
            f"Each needs half of its points in one of {', '.join(f'`{name}`' for name in names)}",
        )
    found = np.argmax(held, axis=0).astype(np.int32)
    counts = np.bincount(found, minlength=len(names))
    if not counts.all():
        shown = ", ".join(f"`{name}` {count}" for name, count in zip(names, counts, strict=True))
        raise GeometryError(
            f"no element lies in the region `{names[int(np.argmin(counts))]}` (elements by region: {shown})",
            "Choose more points for it, or leave it out",
        )
    return found


def neighbours(elements: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Pairs (m, 2) of the numbers of elements (n, k) that are neighbours, each pair once, the lower number first.

    Edges meet in a point, triangles along an edge, tetrahedra and cells in a face, hinges in a triangle: all but one of
    the points, of cells half of them.  Single points (k = 1) are neighbours along `edges` (e, 2).
    """
    count, width = elements.shape
    if width == 1:
        row = np.full(int(max(elements.max(initial=-1), edges.max(initial=-1))) + 1, -1)
        row[elements[:, 0]] = np.arange(count)
        found = row[edges]
        pairs = found[(found >= 0).all(axis=1)]
    else:
        common = width - 1 if width < 8 else width // 2
        faces = np.concatenate(
            [np.sort(elements[:, list(chosen)], axis=1) for chosen in combinations(range(width), common)]
        )
        owner = np.tile(np.arange(count), len(faces) // max(count, 1))
        _, face = np.unique(faces, axis=0, return_inverse=True)
        pairs = _pairs_within(face.ravel(), owner)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _pairs_within(group: np.ndarray, member: np.ndarray) -> np.ndarray:
    """All pairs (m, 2) of members that have a group in common."""
    order = np.argsort(group, kind="stable")
    group, member = group[order], member[order]
    pairs = [np.zeros((0, 2), member.dtype)]
    step = 1
    while len(same := np.flatnonzero(group[step:] == group[:-step])):
        pairs.append(np.stack([member[same], member[same + step]], axis=1))
        step += 1
    return np.concatenate(pairs)
