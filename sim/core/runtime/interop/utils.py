"""`sim.utils`: sums, scans, casts and sorting of arrays, colors of graphs, in Warp's names."""

from sim.core.lang.library.quaternion import quat_between_vectors as quat_between_vectors
from sim.core.runtime.interop.coloring import GraphColoringAlgorithm as GraphColoringAlgorithm
from sim.core.runtime.interop.coloring import graph_coloring_assign as graph_coloring_assign
from sim.core.runtime.interop.coloring import graph_coloring_balance as graph_coloring_balance
from sim.core.runtime.interop.coloring import graph_coloring_get_groups as graph_coloring_get_groups
from sim.core.runtime.interop.reductions import UtilityError as UtilityError
from sim.core.runtime.interop.reductions import array_cast as array_cast
from sim.core.runtime.interop.reductions import array_inner as array_inner
from sim.core.runtime.interop.reductions import array_scan as array_scan
from sim.core.runtime.interop.reductions import array_sum as array_sum
from sim.core.runtime.interop.sorting import radix_sort_pairs as radix_sort_pairs
from sim.core.runtime.interop.sorting import runlength_encode as runlength_encode
from sim.core.runtime.interop.sorting import segmented_sort_pairs as segmented_sort_pairs
from sim.core.runtime.launch.mapping import create_warp_function as create_warp_function
