"""Shapes that surfaces of points do not hold: what is narrower than a triangle may pass between its points."""

from __future__ import annotations

import numpy as np

from sim.model.build.shapes.facets import facet_label
from sim.model.groups import CollisionShape
from sim.model.model import Model

WIDTHS = {"sphere": 1, "capsule": 1, "cylinder": 2, "box": 3}
"""Kinds of shapes, and how many of their sizes tell how narrow they are; a mesh is measured."""


def narrow_shapes(model: Model) -> list[tuple[str, str, float, float]]:
    """Shapes that meet the points of a surface, and fit between them: label of the shape and of the object, width of
    the shape and longest side of a triangle [m].  Shapes that meet its triangles are none of them.

    A ball passes between three points where it is less wide than the circle through them, whose diameter is at least
    the longest side; wider shapes reach in between by part of their width, and are held.
    """
    read = model.device.numpy
    triangles, points = read(model.tri_indices), read(model.particle_q).astype(np.float64)
    sizes = read(model.shape_scale).astype(np.float64)
    sides = np.linalg.norm(points[triangles] - points[np.roll(triangles, 1, axis=1)], axis=2).max(axis=1)
    whole = {label for made in model.constraint_sets.values() for label in made.index_of}
    out = []
    for shape in model.shapes:
        if shape.points is None or not len(shape.points) or shape.kind in ("plane", "sdf"):
            continue
        width = _width(shape, sizes)
        met = np.zeros(len(points), bool)
        met[shape.points] = True
        for name, group in model.groups.items():
            if facet_label(shape.label, name) in whole:
                continue
            own = np.isin(triangles, group.points).all(axis=1) & met[triangles].all(axis=1)
            if own.any() and width < sides[own].max():
                out.append((shape.label, name, width, float(sides[own].max())))
    return out


def _width(shape: CollisionShape, sizes: np.ndarray) -> float:
    if shape.surface is not None:
        return min(_mesh_width(shape.surface[0] * scale) for scale in sizes[shape.numbers])
    return 2.0 * float(sizes[shape.numbers, : WIDTHS[shape.kind]].min())


def _mesh_width(points: np.ndarray) -> float:
    """The least extent of points (n, 3) along the axes of their frame and their principal ones: how a mesh lies in its
    frame does not hide a narrow side."""
    principal = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]
    return float(np.ptp(points @ np.concatenate([np.eye(3), principal]).T, axis=0).min())
