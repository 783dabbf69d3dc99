"""What a mistake in a kernel or constraint says: the place, what to write instead, and a traceback that ends at the
user's call."""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import re
import subprocess
import sys
import traceback
import weakref

import pytest

import sim
from sim.constraints import base
from sim.core.lang.frontend import elsewhere

HEADER = (
    "import math\nimport numpy as np\nimport sim\n\n@sim.kernel\ndef k(y: sim.array[float], v: sim.vec3, m: sim.mat33,"
    " s: float):\n"
)


def load(folder, text: str):
    path = folder / f"module_{abs(hash(text))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def own_registry(monkeypatch):
    monkeypatch.setattr(base, "REGISTRY", dict(base.REGISTRY))


# (an expression, words of the message, the hint)
FUNCTIONS = [
    ("np.linalg.norm(v)", "`numpy.linalg.norm` is a NumPy function", "write sim.length(v)"),
    ("np.minimum(s, 1.0)", "`numpy.minimum` is a NumPy function", "write"),
    ("np.round(s)", "is a NumPy function", "write"),
    ("np.sum(v)", "is a NumPy function", "write sum(...)"),
    ("np.clip(s, 0.0, 1.0)", "is a NumPy function", "write sim.clamp(x, low, high)"),
    ("np.array([1.0, 2.0, 3.0])", "is a NumPy function", "write sim.vec3(a, b, c), or"),
    ("np.zeros(3)", "is a NumPy function", "sim.zeros(shape=3, dtype=float)"),
    ("np.arctan2(s, s)", "is a NumPy function", "write sim.atan2(y, x)"),
    ("np.matmul(m, v)", "is a NumPy function", "write a @ b"),
    ("np.linalg.inv(m)", "is a NumPy function", "write sim.inverse(m)"),
    ("np.random.rand()", "is a NumPy function", "sim.rand_init(seed, i)"),
    ("np.random.default_rng(0).normal()", "is a NumPy function", "write it with functions of the language"),
    ("math.hypot(s, s)", "`math.hypot` is a Python function", "write sim.sqrt(x * x + y * y)"),
    ("math.factorial(3)", "is a Python function", "call it outside"),
    ("any((s > 0.0, s < 1.0))", "`any` is a Python function", "write a or b or c"),
    ("v.dot(v)", "has no component 'dot'", "it has x, y, z; write sim.dot(...)"),
    ("v.norm()", "has no component 'norm'", "write sim.length(v)"),
    ("m.T", "has no component 'T'", "write sim.transpose(m)"),
    ("sim.tile_load(y, 4)", "sim.tile_load is not supported", "tiles; write a kernel per element"),
    ("sim.volume_lookup(s, v)", "sim.volume_lookup is not supported", "sampled fields"),
    ("sim.lenght(v)", "has no attribute 'lenght' (did you mean 'length'?)", ""),
    ("10 == True", "== of the number 10 and the constant True: there is no implicit conversion", "write int(...)"),
    (
        "v + (1.0, 2.0, 3.0)",
        "+ is not defined for vec3<float32> and a tuple of 3",
        "write sim.vec3(...) around the tuple",
    ),
    ("(1.0, 2.0) * s", "* is not defined for a tuple of 2 and float32", "write sim.vector(...) around the tuple"),
]


@pytest.mark.parametrize(("expression", "what", "hint"), FUNCTIONS, ids=lambda p: str(p)[:24])
def test_names_of_other_libraries(tmp_path, expression, what, hint):
    module = load(tmp_path, f"{HEADER}    z = {expression}\n")
    with pytest.raises(sim.KernelError) as caught:
        sim.launch(module.k, 1, [sim.zeros(1), sim.vec3(), sim.mat33(), 1.0])
    error = caught.value
    assert what in error.what and hint in error.hint and bool(hint) == bool(error.hint)
    assert error.span is not None and error.span.text[error.span.col - 1 :].startswith(expression[:2])


def test_a_tuple_where_a_vector_belongs():
    @sim.func
    def same(v: sim.vec3):
        return v

    @sim.struct
    class Body:
        v: sim.vec3

    @sim.kernel
    def stored(x: sim.array[sim.vec3]):
        x[0] = (1.0, 2.0, 3.0)

    @sim.kernel
    def added(x: sim.array[sim.vec3]):
        x[0] += (1.0, 2.0, 3.0)

    @sim.kernel
    def passed(x: sim.array[sim.vec3]):
        x[0] = same((1.0, 2.0, 3.0))

    @sim.kernel
    def in_a_struct(x: sim.array[sim.vec3]):
        b = Body(v=(1.0, 2.0, 3.0))
        x[0] = b.v

    @sim.kernel
    def a_matrix(x: sim.array[sim.mat22d]):
        x[0] = [[1.0, 2.0], [3.0, 4.0]]

    for kernel, dtype, hint in [
        *((k, sim.vec3, "sim.vec3") for k in (stored, added, passed, in_a_struct)),
        (a_matrix, sim.mat22d, "sim.mat22d"),
    ]:
        with pytest.raises(sim.KernelError, match="got a tuple of") as caught:
            sim.launch(kernel, 1, [sim.zeros(1, dtype=dtype)])
        assert caught.value.hint == f"write {hint}(...)"


def test_defaults_of_parameters():
    @sim.kernel
    def k(x: sim.array[float], a: float = 2.0):
        x[0] = a

    with pytest.raises(
        sim.LaunchError,
        match="'a' is missing from inputs or outputs; the defaults of a kernel's parameters are not used",
    ):
        sim.launch(k, 1, [sim.zeros(1)])


BAD_ANNOTATIONS = {
    "of a kernel": ("@sim.kernel\ndef k(\n    y: sim.array[float],\n    a: dict,\n):\n    y[0] = 1.0\n", "dict,"),
    "of a text": ("@sim.kernel\ndef k(y: sim.array[float], a: 'list[float]'):\n    y[0] = 1.0\n", "'list[float]'"),
    "of no name": ("@sim.kernel\ndef k(y: sim.array[float], *, a: 'sim.vec5'):\n    y[0] = 1.0\n", "'sim.vec5'"),
    "of a function": (
        "@sim.func\ndef f(a: str): return a\n@sim.kernel\ndef k(y: sim.array[float]):\n    y[0] = f(y[0])\n",
        "str)",
    ),
}


@pytest.mark.parametrize("case", BAD_ANNOTATIONS)
def test_annotations(tmp_path, case):
    text, under = BAD_ANNOTATIONS[case]
    with pytest.raises(sim.KernelError, match="annotation") as caught:
        module = load(tmp_path, "import sim\n" + text)
        sim.launch(module.k, 1, [sim.zeros(1)] + ([{}] if "a:" in text and case != "of a function" else []))
    span = caught.value.span
    assert span is not None and span.text[span.col - 1 :].startswith(under), caught.value


def test_points_and_parameters_of_a_constraint(tmp_path, own_registry):
    module = load(
        tmp_path,
        "import sim\n@sim.constraint(points=2)\ndef c(x, rest: float):\n    return sim.length(x[2] - x[0]) - rest\n",
    )
    with pytest.raises(sim.KernelError, match=r":4:23: index 2 is outside of 0 \.\. 1: this constraint has 2 points"):
        module.c.traced()
    module = load(
        tmp_path,
        "import sim\n@sim.constraint(points=2)\ndef c(x, rest: float):\n    a, b, d = x\n    return sim.length(a - b) -"
        " rest\n",
    )
    with pytest.raises(sim.KernelError, match="2 values for 3 names") as caught:
        module.c.traced()
    assert caught.value.hint == "this constraint has 2 points"
    with pytest.raises(
        sim.ConstraintError,
        match=r":3:16: parameter 'rest' of constraint 'c' is mat33<float32>; expected float or sim.vec3",
    ):
        load(
            tmp_path,
            "import sim\n@sim.constraint(points=2)\ndef c(x, rest: sim.mat33):\n    return sim.length(x[1] - x[0])\n",
        )


def test_names_of_warp_are_hinted_at():
    for name, hint in {
        "from_ptr": "sim.array",
        "svd3x3": "sim.svd3",
    }.items():
        with pytest.raises(AttributeError, match=rf"module 'sim' has no attribute '{name}': .*{re.escape(hint)}"):
            getattr(sim, name)
    with pytest.raises(AttributeError, match="did you mean 'normalize'"):
        sim.normalise  # noqa: B018 the access is what is tested
    assert not hasattr(sim, "__wrapped__")


def test_what_is_not_supported_says_so(tmp_path):
    names = "tile_load Volume Texture2D fem sparse render jax_kernel capture_save from_paddle"
    for name in names.split():
        for module in (sim, sim.core):
            with pytest.raises(sim.NotSupportedError, match=rf"\.{name} is not supported: \w"):
                getattr(module, name)
    for name in ("fem", "sparse", "render"):
        with pytest.raises(sim.NotSupportedError, match=rf"sim.{name}.Anything is not supported"):
            importlib.import_module(f"sim.{name}").Anything()
    with pytest.raises(sim.KernelError, match=r":7:\d+: sim.tile_load is not supported"):
        sim.launch(
            load(tmp_path, f"{HEADER}    z = sim.tile_load(y, shape=4)\n").k,
            1,
            [sim.zeros(1), sim.vec3(), sim.mat33(), 1.0],
        )


def test_hints_name_what_there_is():
    for table in (elsewhere.NUMPY, elsewhere.PYTHON, elsewhere.WARP, elsewhere.UNSUPPORTED):
        for hint in table.values():
            for dotted in re.findall(r"sim((?:\.\w+)+)", hint):
                found = sim
                for part in dotted[1:].split("."):
                    found = getattr(found, part)
    for name in elsewhere.WARP:
        if "*" not in name and "?" not in name:
            assert not hasattr(sim, name), name
    for name in elsewhere.NUMPY:
        ast.parse(name)


def frames(problem: BaseException) -> list[str]:
    return [entry.filename for entry in traceback.extract_tb(problem.__traceback__)]


def failing(tmp_path, own_registry) -> dict:
    bad = load(tmp_path, f"{HEADER}    z = np.round(s)\n").k
    stops = load(
        tmp_path, "import sim\n@sim.kernel\ndef k(y: sim.array[float]):\n    assert y[0] > 0.0\n    y[0] = 2.0 * y[0]\n"
    ).k
    c = load(
        tmp_path,
        "import sim\n@sim.constraint(points=2)\ndef c(x, rest: float):\n    return sim.length(x[2] - x[0]) - rest\n",
    ).c

    def finalize():
        builder = sim.ModelBuilder()
        builder.add_particles([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], mass=1.0)
        builder.add_constraints(c, [[0, 1]], compliance=0.0)
        return builder.finalize()

    def backward():
        y = sim.zeros(1, requires_grad=True)
        with sim.Tape() as tape:
            pass
        tape.backward(y)

    def decorate():
        @sim.constraint(points=2)
        def bad(x, rest: dict):
            return 0.0

    y = sim.zeros(1)
    return {
        "launch": lambda: sim.launch(bad, 1, [y, sim.vec3(), sim.mat33(), 1.0]),
        "arguments": lambda: sim.launch(stops, 1, [1.0]),
        "assertion": lambda: sim.launch(stops, 1, [y]),
        "recorded": lambda: sim.launch(stops, 1, [y], record_cmd=True).launch(),
        "adjoint": lambda: sim.launch(stops, 1, [y], adjoint=True),
        "constraint": finalize,
        "decoration": decorate,
        "backward": backward,
        "called": lambda: bad(1),
        "gradient rule": lambda: sim.func_grad(3),
        "host": lambda: sim.length("text"),
    }


@pytest.mark.parametrize("full", [False, True])
def test_tracebacks_end_at_the_users_call(tmp_path, own_registry, monkeypatch, full):
    monkeypatch.setenv("SIM_FULL_TRACEBACKS", "1" if full else "0")
    for name, action in failing(tmp_path, own_registry).items():
        try:
            action()
        except (sim.SimError, TypeError) as problem:
            inside = [
                f
                for f in frames(problem)
                if "/sim/core/" in f.replace("\\", "/") or "/sim/constraints/" in f.replace("\\", "/")
            ]
            assert bool(inside) == full or not isinstance(problem, sim.SimError), (name, frames(problem))
            assert frames(problem)[0] == __file__
        else:
            pytest.fail(f"{name} raised nothing")


def test_an_error_that_is_kept_keeps_no_kernel_and_no_array_alive():
    @sim.kernel
    def unfinished(a: sim.array[float]):
        a[0] = None

    a = sim.zeros(1)
    alive = [weakref.ref(unfinished), weakref.ref(a)]
    with pytest.raises(sim.KernelError) as caught:
        sim.launch(unfinished, 1, [a])
    kept = caught.value.with_traceback(None)  # this function's own frame
    del unfinished, a, caught
    gc.collect()
    assert kept.__context__ is None and [at() for at in alive] == [None, None]


def test_frames_of_the_user_in_between_stay():
    def loss(y: sim.array) -> sim.array:
        sim.launch(3, 1)  # type: ignore[arg-type]
        return y

    with pytest.raises(sim.LaunchError) as caught:
        sim.autograd.jacobian(loss, inputs=[sim.zeros(1, requires_grad=True)])
    names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "loss" and set(frames(caught.value)) == {__file__}


def test_a_script_prints_no_internal_frames(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"{HEADER}    z = np.round(s)\n\nsim.launch(k, 1, [sim.zeros(1), sim.vec3(), sim.mat33(), 1.0])\n"
    )
    shown = subprocess.run([sys.executable, str(script)], capture_output=True, text=True).stderr
    assert "During handling" not in shown and shown.count('  File "') == 1, shown
    assert "numpy.round" in shown
