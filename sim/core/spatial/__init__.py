"""Spatial structures: hash grids of points, trees of bounding boxes, and meshes; made on the host, asked in kernels.

A kernel knows a structure by its `id`, a uint64: the address of its *header*, a short array of 64-bit words in the
memory of the device, which holds the addresses and sizes of the arrays of the structure (`handles.py`).  The language
reads what lies there by `peek(kind, address)` (`sim/core/lang/ir/table.py`): constant while a launch runs, and not
differentiated.  Headers never move, so ids may be kept in arrays and structs.

**Trees** (`bvh.py` builds, `bvh_queries.py` asks).  Words of the header: 0 nodes, 1 items, 2 bounds of the items, 3
number of nodes, 4 number of items, 5 table of groups, 6 number of groups.  Nodes stand in depth-first order, 32 bytes
each:

    lower.x lower.y lower.z : float32    skip  : int32
    upper.x upper.y upper.z : float32    first : int32

`skip` > 0: an inner node; its left child is the next node, and the node behind its subtree is number `skip`.  So the
right child is the node behind the left one's subtree, and a query that goes on to the next node where boxes overlap,
and to `skip` where they do not, needs no stack and visits items in an order that depends on the tree alone.
`skip` < 0: a leaf of -skip items, the positions `first` and following; the node behind it is the next one.
Items: the number of the user's box at each position (int32).  Bounds of the items: lower and upper, six float32 each.
Groups: (group, root) pairs of int32, in ascending order of the groups as unsigned numbers; `root` is the node that
holds the group.

**Grids** (`hash_grid.py`, `hash_grid_queries.py`).  Points are sorted by cell, x fastest, and where there are groups by
group; points of one cell and group keep their order.  Word 0: first position of each cell, and the end (int32), 1:
number of the point at each position, 2: group at each position or 0, 3 to 5: cells along x, y, z, 6: 1 / width of a
cell (bits of a float64), 7: number of points.
"""
