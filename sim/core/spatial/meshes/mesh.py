"""`Mesh`: triangles, the tree around them, and the number by which kernels know them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.errors import SimError, entry_point
from sim.core.lang.types import int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.hidden import new_handle
from sim.core.spatial.meshes.layout import MESH, Box, Moments, TreeRow, Triangle, vec3
from sim.core.spatial.meshes.tree import build_tree, refit_tree

CONSTRUCTORS = ("sah", "median", "lbvh", "cubql")
"""Warp's names of ways to build a tree.  Here there is one, which halves the faces; the names are taken for hints."""


class MeshError(SimError, RuntimeError, ValueError):
    """A mesh that cannot be made."""
