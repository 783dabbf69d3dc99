"""Surfaces of fields under the names of Warp's `warp.geometry`; `sim.geometry` has them as well."""

from __future__ import annotations

from typing import Any

from sim.core.lang.errors import NotSupportedError
from sim.core.lang.frontend import elsewhere
from sim.core.spatial.marching_cubes import MarchingCubes

IsoSurfaceMarchingCubes = MarchingCubes


def __getattr__(name: str) -> Any:
    """Raises NotSupportedError for what Warp has here beside, AttributeError for other names."""
    if name[:1] != "_" and (what := elsewhere.instead(elsewhere.GEOMETRY, name)):
        raise NotSupportedError(f"geometry.{name} is not supported: {what}")
    raise AttributeError(f"module 'geometry' has no attribute {name!r}")
