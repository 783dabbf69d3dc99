"""Names of NumPy, Python and Warp that are called something else here, or are not there: what messages say instead.

The keys are names as the other library has them; `name_*` stands for every name that begins so.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

_OPERATORS = {
    "add": "a + b",
    "subtract": "a - b",
    "multiply": "a * b",
    "divide": "a / b",
    "true_divide": "a / b",
    "floor_divide": "a // b",
    "remainder": "a % b",
    "fmod": "a % b",
    "negative": "-a",
    "square": "a * a",
    "power": "a ** b",
    "float_power": "a ** b",
    "matmul": "a @ b",
    "logical_and": "a and b",
    "logical_or": "a or b",
    "logical_not": "not a",
    "equal": "a == b",
    "not_equal": "a != b",
    "less": "a < b",
    "less_equal": "a <= b",
    "greater": "a > b",
    "greater_equal": "a >= b",
    "reciprocal": "1.0 / a",
}
_ARRAY = "write sim.vec3(a, b, c), or sim.vector(a, b, ...) and sim.matrix(..., shape=(2, 2)) for other sizes"
_FILLED = "for a few numbers write sim.zeros(shape=3, dtype=float), and fill it; pass a larger array as an argument"
_ROUND = "write sim.round(x), or sim.rint(x) for halves to even"
_ASIN, _ACOS, _ATAN, _ATAN2 = (f"write sim.{name}" for name in ("asin(x)", "acos(x)", "atan(x)", "atan2(y, x)"))
NUMPY: Mapping[str, str] = {
    **{name: f"write {how}" for name, how in _OPERATORS.items()},
    "norm": "write sim.length(v)",
    "absolute": "write abs(x)",
    "fabs": "write abs(x)",
    "clip": "write sim.clamp(x, low, high)",
    "maximum": "write max(a, b)",
    "fmax": "write max(a, b)",
    "amax": "write max(v)",
    "minimum": "write min(a, b)",
    "fmin": "write min(a, b)",
    "amin": "write min(v)",
    "arcsin": _ASIN,
    "arccos": _ACOS,
    "arctan": _ATAN,
    "arctan2": _ATAN2,
    "array": _ARRAY,
    "asarray": _ARRAY,
    "ascontiguousarray": _ARRAY,
    "stack": _ARRAY,
    "concatenate": _ARRAY,
    "hstack": _ARRAY,
    "vstack": _ARRAY,
    "zeros": _FILLED,
    "ones": _FILLED,
    "full": _FILLED,
    "empty": _FILLED,
    "zeros_like": _FILLED,
    "ones_like": _FILLED,
    "arange": "write `for i in range(n)`",
    "linspace": "write `for i in range(n)`",
    "eye": "write sim.identity(n=3, dtype=float)",
    "identity": "write sim.identity(n=3, dtype=float)",
    "det": "write sim.determinant(m)",
    "inv": "write sim.inverse(m)",
    "pinv": "write sim.inverse(m)",
    "solve": "write sim.inverse(m) * b",
    "svd": "write sim.svd3(m)",
    "qr": "write sim.qr3(m)",
    "eigh": "write sim.eig3(m)",
    "eig": "write sim.eig3(m)",
    "inner": "write sim.dot(a, b)",
    "vdot": "write sim.dot(a, b)",
    "einsum": "write it with loops",
    "tensordot": "write it with loops",
    "mean": "write sum(v) / float(len(v))",
    "average": "write sum(v) / float(len(v))",
    "prod": "write it with a loop",
    "deg2rad": "write sim.radians(x)",
    "rad2deg": "write sim.degrees(x)",
    "hypot": "write sim.sqrt(x * x + y * y)",
    "interp": "write sim.lerp(a, b, t)",
    "fix": "write sim.trunc(x)",
    "round_": _ROUND,
    "around": _ROUND,
    "expm1": "write sim.exp(x) - 1.0",
    "log1p": "write sim.log(1.0 + x)",
    "exp2": "write 2.0 ** x",
    "float32": "write sim.float32(x)",
    "float64": "write sim.float64(x)",
    "int32": "write sim.int32(x)",
    "int64": "write sim.int64(x)",
    "float_": "write float(x)",
    "int_": "write int(x)",
    "bool_": "write sim.bool(x)",
    **dict.fromkeys(
        ("rand", "random", "uniform", "random_sample"),
        "write `state = sim.rand_init(seed, i)`, then `sim.randf(state)`",
    ),
    **dict.fromkeys(("normal", "standard_normal"), "write `state = sim.rand_init(seed, i)`, then `sim.randn(state)`"),
    "T": "write sim.transpose(m)",
}
"""Functions of NumPy and `math`, and methods of its arrays."""
PYTHON: Mapping[str, str] = {
    "fsum": "write sum((a, b, c))",
    "dist": "write sim.length(a - b)",
    "any": "write a or b or c",
    "all": "write a and b and c",
    "divmod": "write a // b and a % b",
    "list": "write a tuple, or sim.zeros(shape=3, dtype=float) and fill it",
    "set": "use a tuple",
    "dict": "use a @sim.struct",
    "sorted": "compare and exchange with min(a, b) and max(a, b)",
    "str": 'write print("x =", x)',
    "repr": 'write print("x =", x)',
    "isinstance": "annotate the arguments: a function may be defined more than once, for other types",
    "tuple": "write (a, b, c)",
}
"""Functions of Python that the language does not have."""
_TILES = "tiles; write a kernel per element, sums with sim.atomic_add"
_SAMPLED = "sampled fields; index a sim.array3d in the kernel"
_PADDLE = "Paddle; hand arrays over by DLPack: sim.from_dlpack(tensor)"
_JAX = "kernels inside of JAX; write sim.from_jax(a) and sim.to_jax(a)"
_ALLOCATORS = "allocators of one's own; memory is kept by the device itself"
_POOLS = "memory pools; memory is kept by the device itself"
_COMPILED = "code compiled ahead; a kernel is compiled at its first launch, and kept on disk"
_SAVED = "graphs in files; capture in each run"
_PROFILER = "NVIDIA's profilers; use sim.profile()"
UNSUPPORTED: Mapping[str, str] = {
    **dict.fromkeys(("tile", "tile_*", "untile", "launch_tiled"), _TILES),
    "*_tiled": "tiles; write the query without `_tiled`, in every thread",
    "*QueryTiled": _TILES,
    "MeshQueryAABBTiled": _TILES,
    **dict.fromkeys(("Volume", "volume_*", "Texture*", "texture*", "GLTextureResource"), _SAMPLED),
    **dict.fromkeys(("fabric", "fabricarray*", "indexedfabricarray*"), "arrays of Fabric; use sim.indexedarray"),
    "fem": "finite elements in Warp's form; models are built by sim.ModelBuilder",
    "sparse": "sparse matrices; sim.optim.linear takes a LinearOperator, which launches their product",
    "render": "renderers; `simopt run scene.yaml` makes a report with a player",
    "RegisteredGLBuffer": "buffers of OpenGL",
    "build_experimental": _COMPILED,
    "*_aot_module": _COMPILED,
    **dict.fromkeys(("jax_experimental", "jax_kernel", "jax_callable", "Jax*", "clear_jax_callable_graph_cache"), _JAX),
    "*_paddle": _PADDLE,
    **dict.fromkeys(("stream_from_torch", "stream_to_torch"), "streams of PyTorch; from_torch waits for them"),
    "*_ipc_handle": "memory and events shared between processes",
    **dict.fromkeys(("capture_save", "capture_load*", "capture_debug_dot_print"), _SAVED),
    **dict.fromkeys(("Allocator", "CudaManagedAllocator", "MemoryKind", "ScopedAllocator"), _ALLOCATORS),
    **dict.fromkeys(("set_cuda_allocator", "*_device_allocator"), _ALLOCATORS),
    **dict.fromkeys(("*et_mempool_release_threshold", "get_mempool_used_mem_*"), _POOLS),
    **dict.fromkeys(("ScopedMemoryTracker", "print_memory_report"), "tracking of allocations; see Tape.memory()"),
    **dict.fromkeys(("map_cuda_device", "unmap_cuda_device"), "other names of devices; use sim.get_device('cuda:0')"),
    **dict.fromkeys(("cuda_profiler_start", "cuda_profiler_stop", "ScopedCudaProfiler"), _PROFILER),
    **dict.fromkeys(("get_cuda_kernel_properties", "get_cuda_max_cluster_dim"), "properties of compiled kernels"),
}
"""Names of Warp for what is not supported: what that is, and what to write instead."""
_SURFACES = "other surfaces of fields than marching cubes; write sim.MarchingCubes"
GEOMETRY: Mapping[str, str] = {
    **dict.fromkeys(("IsoSurface*", "sparse_marching_cubes*", "lipschitz_octree"), _SURFACES),
    **dict.fromkeys(("swept_volume_*", "SweptVolume*"), "swept volumes; query a sim.Mesh in each place of it"),
    **dict.fromkeys(("delaunay_*", "tri_tri_*", "find_triangle_*"), "meshes that are flipped to Delaunay's"),
}
"""The same for the names of `warp.geometry`."""
WARP: Mapping[str, str] = {
    "sim": "models are built by sim.ModelBuilder, and moved by sim.SolverXPBD",
    "context": "see sim.config, sim.get_device() and sim.set_num_threads(n)",
    "from_ptr": "write sim.array(ptr=..., shape=..., dtype=...)",
    "address_of": "write `def f(x: sim.ref[float])`: the function changes its argument",
    "select": "write sim.where(cond, if_true, if_false)",
    **dict.fromkeys(("svd3x3", "eig3x3"), "write sim.svd3(m), sim.eig3(m)"),
    "autograd_*": "see sim.autograd",
}
"""Names of Warp that this package does not have."""


def instead(table: Mapping[str, str], name: str) -> str:
    """What to write instead of a name of another library, or an empty string."""
    return table.get(name) or next((how for pattern, how in table.items() if fnmatch.fnmatchcase(name, pattern)), "")
