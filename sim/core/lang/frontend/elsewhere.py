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
_LATER = "are not there yet"
_COMPILED = "there is nothing to load: a kernel is compiled at its first launch, and kept on disk"
WARP: Mapping[str, str] = {
    "tile": f"tiles {_LATER}; write a kernel per element, sums with sim.atomic_add",
    "tile_*": f"tiles {_LATER}; write a kernel per element, sums with sim.atomic_add",
    "launch_tiled": f"tiles {_LATER}; write a kernel per element with sim.launch",
    "mesh_query_aabb*tiled": f"tiles {_LATER}; write mesh_query_aabb and mesh_query_aabb_next, in every thread",
    **dict.fromkeys(
        ("Volume", "volume_*", "Texture*", "texture_*", "MarchingCubes"),
        f"sampled fields {_LATER}; index a sim.array3d in the kernel",
    ),
    **dict.fromkeys(("fem", "sparse"), "it is not there yet"),
    "sim": "models are built by sim.ModelBuilder, and moved by sim.SolverXPBD",
    "render": "write `simopt run scene.yaml`: it makes a report with a player",
    "context": "see sim.config, sim.get_device() and sim.set_num_threads(n)",
    "*_aot_module": _COMPILED,
    "from_ptr": "write sim.array(ptr=..., shape=..., dtype=...)",
    **dict.fromkeys(
        ("indexedarray*", "fabricarray*", "indexedfabricarray*"),
        "pass the indices as an array, and write a[index[i]] in the kernel",
    ),
    "cast": "write sim.int32(x), ... to convert a number; to read its bits as another type there is no way yet",
    "address_of": "write `def f(x: sim.ref[float])`: the function changes its argument",
    "select": "write sim.where(cond, if_true, if_false)",
    **dict.fromkeys(("jax_kernel", "jax_callable"), "write sim.from_jax(a) and sim.to_jax(a)"),
    **dict.fromkeys(("svd3x3", "eig3x3"), "write sim.svd3(m), sim.eig3(m)"),
    "map": "write a @sim.kernel, and sim.launch",
    "autograd_*": "see sim.autograd",
}
"""Names of Warp that this package does not have."""


def instead(table: Mapping[str, str], name: str) -> str:
    """What to write instead of a name of another library, or an empty string."""
    return table.get(name) or next((how for pattern, how in table.items() if fnmatch.fnmatchcase(name, pattern)), "")
