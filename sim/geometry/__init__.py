"""Geometry on NumPy arrays, without physics: mesh files, topology, grids, colouring, sampling, choices of points."""

from .coloring import Coloring as Coloring
from .coloring import check_coloring as check_coloring
from .coloring import color_constraints as color_constraints
from .errors import GeometryError as GeometryError
from .grid import ClothGrid as ClothGrid
from .grid import cloth_grid as cloth_grid
from .meshfile import MeshFile as MeshFile
from .meshfile import load_mesh as load_mesh
from .meshfile import merge_positions as merge_positions
from .sampling import farthest_points as farthest_points
from .select import choose_points as choose_points
from .topology import Topology as Topology
from .topology import check_cloth as check_cloth
from .topology import cloth_problems as cloth_problems
from .topology import mesh_topology as mesh_topology
from .transforms import axes_matrix as axes_matrix
from .transforms import place as place
from .transforms import rotation_from_axis_angle as rotation_from_axis_angle
from .transforms import rotation_from_quaternion as rotation_from_quaternion
