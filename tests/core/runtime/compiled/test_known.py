"""Kernels of the package are known in the next process without a trace, and traced wherever that could be wrong."""

import linecache
import os
import subprocess
import sys
import textwrap
import time
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import sim
from sim.core.backends import cache
from sim.core.lang.frontend.function import rules
from sim.core.lang.memoize import memoize
from sim.core.runtime.compiled import identity as identities
from sim.core.runtime.compiled import known as known_facts
from sim.core.runtime.compiled.identity import identity
from sim.core.runtime.compiled.known import SourceChanged
from sim.core.runtime.launch.kernel import Kernel

MODULE = """
    import sim

    SCALE = 3.0

    @sim.func
    def helper(x: float):
        return x * SCALE

    @sim.kernel
    def blow_up(x: sim.array[float], y: sim.array[float]):
        i = sim.tid()
        y[i] = helper(x[i]) * x[i]

    @sim.kernel
    def scatter(at: sim.array[int], x: sim.array[float], y: sim.array[float]):
        i = sim.tid()
        y[at[i]] = x[i]

    @sim.func
    def abs_of(x: sim.float64):
        return sim.abs(x)

    def scaled_by(number, kind=float, inner=helper):
        @sim.kernel
        def scale(x: sim.array[kind], y: sim.array[kind]):
            i = sim.tid()
            y[i] = kind(number) * inner(x[i])

        return scale
"""


@pytest.fixture
def traces(monkeypatch) -> list[str]:
    """Names of the kernels that are traced."""
    names: list[str] = []
    traced = Kernel._traced
    monkeypatch.setattr(Kernel, "_traced", lambda self, types: (names.append(self.name), traced(self, types))[1])
    return names


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Imports a text as a module of the package, as another process would; its digest is that of the package."""
    monkeypatch.setenv("SIM_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(identities, "_INSIDE", os.sep)
    # Python tells bytecode that is out of date by size and second, which two texts of one test share
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def import_text(text: str = MODULE, digest: str = ""):
        path = tmp_path / "own.py"
        path.write_text(textwrap.dedent(text))
        for module in (identities, known_facts):
            monkeypatch.setattr(module, "sources", lambda: digest or str(hash(text)))
        spec = spec_from_file_location("sim.own", path)
        module = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "sim.own", module)
        spec.loader.exec_module(module)
        return module

    return import_text


def doubled(kernel: Kernel, strided: bool = False) -> tuple[list[float], list[float]]:
    """What a kernel makes of 1, 2, 3, and the gradient of the sum of it."""
    memory = sim.array([1.0, 0.0, 2.0, 0.0, 3.0, 0.0] if strided else [1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    x, y = memory[::2] if strided else memory, sim.zeros(3, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(kernel, dim=3, inputs=[x], outputs=[y])
    tape.backward(grads={y: sim.ones_like(y)})
    return y.numpy().tolist(), x.grad.numpy().tolist()


EXPECTED = [3.0, 12.0, 27.0], [6.0, 12.0, 18.0]


def test_what_is_known_is_not_traced_again(load, traces) -> None:
    assert doubled(load().blow_up) == EXPECTED and traces == ["blow_up"]
    assert doubled(load().blow_up) == EXPECTED and traces == ["blow_up"]


def scattered(kernel: Kernel, places: list[int]) -> str:
    """The words in which a launch is refused that writes to these places."""
    x, y = (sim.zeros(3, dtype=float, requires_grad=True) for _ in range(2))
    try:
        with sim.Tape() as tape:
            sim.launch(kernel, dim=3, inputs=[sim.array(places, dtype=int), x], outputs=[y])
        tape.backward(grads={y: sim.ones_like(y)})
    except sim.GradientError as error:
        return str(error).replace("_races", "")
    return ""


def test_known_checks_of_races_find_the_same(load, traces) -> None:
    wanted = scattered(load(digest="another").scatter, [0, 2, 0])  # by a check of this process
    assert "thread 2 writes an element of 'y' that thread 0 has written" in wanted
    assert scattered(load().scatter, [2, 0, 1]) == "" and len(traces) == 2
    assert scattered(load().scatter, [1, 0, 2]) == "" and len(traces) == 2  # the check of places is known
    for _ in range(2):  # the exact check is made, then known; the report takes a trace
        assert scattered(load().scatter, [0, 2, 0]) == wanted
    assert len(traces) == 4


def test_constants_of_the_standard_library_are_known(load, traces) -> None:
    text = MODULE.replace("import sim\n", "import math\n    import sim\n", 1).replace(
        "* SCALE", "* SCALE + 0.0 * math.pi"
    )
    assert doubled(load(text).blow_up) == doubled(load(text).blow_up) == EXPECTED and traces == ["blow_up"]


def test_new_layouts_of_a_known_kernel_are_compiled_from_a_trace(load, traces) -> None:
    doubled(load().blow_up)
    known = load().blow_up
    assert doubled(known) == doubled(known, strided=True) == EXPECTED and traces == ["blow_up"] * 2


def test_another_gradient_of_a_known_kernel_is_derived_from_a_trace(load, traces) -> None:
    sim.launch(load().blow_up, dim=3, inputs=[sim.zeros(3)], outputs=[sim.zeros(3)])
    assert doubled(load().blow_up) == EXPECTED and traces == ["blow_up"] * 2


def test_an_edited_helper_and_a_changed_constant_count(load, traces) -> None:
    doubled(load().blow_up)
    assert doubled(load(MODULE.replace("SCALE = 3.0", "SCALE = 4.0")).blow_up)[0] == [4.0, 16.0, 36.0]
    assert doubled(load(MODULE.replace("return x * SCALE", "return x + SCALE")).blow_up)[0] == [4.0, 10.0, 18.0]
    assert len(traces) == 3


def test_what_closures_hold_counts(load, traces) -> None:
    def made(**given):
        return load().scaled_by(**given)

    def launched(kernel: Kernel, kind=sim.float32) -> float:
        y = sim.zeros(1, dtype=kind)
        sim.launch(kernel, dim=1, inputs=[sim.ones(1, dtype=kind)], outputs=[y])
        return float(y.numpy()[0])

    def alone(x):
        return x

    for _ in range(2):
        assert launched(made(number=2.0)) == 6 and launched(made(number=-2.0)) == -6
        assert launched(made(number=2.0, kind=sim.float64, inner=load().abs_of), sim.float64) == 2
    assert len(traces) == 3
    assert launched(made(number=2.0, inner=sim.func(alone))) == 2  # a function of the user: traced every time
    assert launched(made(number=2.0, inner=sim.func(alone))) == 2
    assert len(traces) == 5


def test_files_that_are_broken_or_gone_are_made_again(load, traces, tmp_path) -> None:
    doubled(load().blow_up)
    folder = tmp_path / "kernels"
    for path in folder.glob("*" + cache.CODE):
        path.unlink()
    assert doubled(load().blow_up) == EXPECTED and len(traces) == 2
    for path in folder.glob("*" + cache.KNOWN):
        path.write_bytes(path.read_bytes()[:-1])
    assert doubled(load().blow_up) == EXPECTED and len(traces) == 3
    for path in folder.glob("*" + cache.KNOWN):
        cache.save(path.stem, b"no pickle", cache.KNOWN)
    assert doubled(load().blow_up) == EXPECTED and len(traces) == 4
    assert doubled(load().blow_up) == EXPECTED and len(traces) == 4


def test_sources_that_change_while_they_run_are_an_error(load) -> None:
    doubled(load(digest="the same").blow_up)
    known = load(MODULE.replace("return x * SCALE", "return x + SCALE"), digest="the same").blow_up
    with pytest.raises(SourceChanged, match="'blow_up' is not what it was"):
        doubled(known, strided=True)


def test_a_function_with_a_derivative_of_the_user_is_traced(load, traces) -> None:
    doubled(load().blow_up)
    known = load()
    assert doubled(known.blow_up) == EXPECTED and len(traces) == 1

    @known.helper.vjp
    def wrong(x, result, ct):
        return 0.0 * ct

    try:
        assert doubled(known.blow_up)[1] == [3.0, 6.0, 9.0] and len(traces) == 2
        assert identity(load().blow_up.function, ()) is None
    finally:
        rules.foreign = 0


def test_what_a_function_of_the_package_looks_up_and_may_change_is_not_known(load, traces) -> None:
    text = MODULE.replace("SCALE = 3.0", "SCALE = [3.0]").replace("x * SCALE", "x * SCALE[0]")
    for count in (1, 2):
        assert doubled(load(text).blow_up) == EXPECTED and len(traces) == count


def test_promises_and_types_are_part_of_the_key(load) -> None:
    function = load().blow_up.function
    kinds = [sim.array(dtype=kind) for kind in (float, sim.float64, sim.vec3)]
    keys = [identity(function, (kind,)) for kind in kinds]
    keys += [identity(function, (kinds[0],), *more) for more in ((1,), ("1",), (["a"],), ([],), (True,))]
    assert None not in keys and len(set(keys)) == len(keys)


def test_structs_of_one_name_are_told_apart(load) -> None:
    def struct_of(kind):
        class Pair:
            a: kind
            b: sim.array[kind]

        return sim.struct(Pair)

    function = load().blow_up.function
    keys = {identity(function, (struct_of(kind),)) for kind in (float, sim.float64, float)}
    assert len(keys) == 2 and None not in keys


def test_functions_of_users_have_no_key(load) -> None:
    load()

    @sim.kernel
    def mine(x: sim.array[float]):
        x[sim.tid()] = 0.0

    assert identity(mine.function, ()) is None


def test_what_somebody_assigns_in_a_module_of_the_package_counts(load, traces) -> None:
    assert doubled(load().blow_up) == EXPECTED
    other = load()
    other.SCALE = 5.0
    assert doubled(other.blow_up)[0] == [5.0, 20.0, 45.0] and len(traces) == 2
    other = load()
    other.helper = other.abs_of.__class__(lambda_of_the_user)
    assert doubled(other.blow_up)[0] == [2.0, 6.0, 12.0] and len(traces) == 3
    assert doubled(load().blow_up) == EXPECTED and len(traces) == 4  # what was kept last is of the other constant
    assert doubled(load().blow_up) == EXPECTED and len(traces) == 4


def lambda_of_the_user(x):
    return x + 1.0


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A folder instead of that of the package, older than this process."""
    monkeypatch.setattr(identities, "_PACKAGE", tmp_path)
    monkeypatch.setattr(identities, "_INSIDE", f"{tmp_path}{os.sep}")
    monkeypatch.setattr(identities, "BEGAN", time.time_ns() + 10**10)
    monkeypatch.setattr(identities, "_read", identities._Read())
    return tmp_path


def test_the_digest_of_sources(monkeypatch, package) -> None:
    def digest() -> str | None:
        monkeypatch.setattr(identities, "_digest", memoize(undecorated))
        return identities.sources()

    undecorated = identities._digest.__wrapped__
    assert digest() is None  # no sources at all
    found = []
    for time_of_it, (name, text) in enumerate((("a.py", "1"), ("a.py", "2"), ("b.py", "2"), ("b.py", "2"))):
        (package / name).write_text(text)
        os.utime(package / name, (time_of_it, time_of_it))
        found.append(digest())
    assert None not in found and len(set(found)) == 3 and found[2] == found[3]
    monkeypatch.setattr(identities, "BEGAN", time.time_ns() - 10**10)  # as if they were newer than the process
    assert digest() is None


@pytest.mark.skipif(os.name == "nt", reason="files have no time of their last change there")
def test_sources_are_read_where_something_of_them_is_another(monkeypatch, package) -> None:
    def digest() -> str | None:
        reads.clear()
        return identities._digest.__wrapped__()

    reads: list[str] = []
    of_texts = identities._digest_of_texts
    monkeypatch.setattr(
        identities,
        "_digest_of_texts",
        lambda versions, files: (reads.extend(path for path, _ in files), of_texts(versions, files))[1],
    )
    (package / "inner").mkdir()
    (package / "inner" / "__pycache__").mkdir()
    text = package / "inner" / "a.py"
    text.write_text("1")
    (package / "b.py").write_text("b")
    (package / "inner" / "notes.txt").write_text("not of it")
    first = digest()
    assert first is not None and reads == ["b.py", f"inner{os.sep}a.py"]
    assert digest() == first and reads == []  # what is the same is not read again

    before = text.stat()
    time.sleep(0.1)  # more than a tick of the system's clock
    text.write_text("2")  # of the same size, and with the time that the other had
    os.utime(text, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert text.stat().st_mtime_ns == before.st_mtime_ns
    second = digest()
    assert second not in (None, first) and reads

    os.utime(text)
    assert digest() == second and reads  # another time, the same text
    text.rename(package / "inner" / "c.py")
    assert digest() not in (first, second)
    monkeypatch.setattr(np, "__version__", "another")
    assert digest() not in (first, second) and reads

    found = list(identities._files(package))
    whole = SimpleNamespace(st_size=1, st_mtime_ns=10**9, st_ctime_ns=10**9, st_ino=7)
    monkeypatch.setattr(identities, "_files", lambda folder: iter([(found[0][0], whole), found[1]]))
    assert digest() == digest() and reads  # as in an image with times that say nothing


def test_texts_that_are_read_after_the_digest_was_made(monkeypatch, package) -> None:
    (package / "a.py").write_text("1")
    monkeypatch.setattr(identities, "_digest", lambda: "a digest")
    assert identities.sources() == "a digest"
    monkeypatch.setattr(identities, "BEGAN", time.time_ns() - 10**10)
    assert identities.sources() == "a digest"  # written, but not read
    linecache.getlines(str(package / "a.py"))
    assert identities.sources() is None
    linecache.clearcache()
    assert identities.sources() is None  # what it was made of is not forgotten

    monkeypatch.setattr(identities, "_read", identities._Read())
    assert identities.sources() == "a digest"
    late = ModuleType("sim.late")
    late.__file__ = str(package / "a.py")
    monkeypatch.setitem(sys.modules, "sim.late", late)
    assert identities.sources() is None


PROGRAM = """
import sim, sim.core.runtime.launch.kernel as kernels
count, traced = [], kernels.Kernel._traced
kernels.Kernel._traced = lambda self, types: (count.append(self.name), traced(self, types))[1]
b = sim.ModelBuilder()
b.add_cloth_grid(pos=(0, 0, 0), dim_x=3, dim_y=3, cell_x=0.1, cell_y=0.1, density=0.2, fix_top=True, label="sheet",
                 material={"distance": {"compliance": 0.01}})
model = b.finalize(requires_grad=True)
compliance = model["sheet.distance.compliance"]
with sim.Tape() as tape:
    end = sim.rollout(sim.SolverXPBD(model), model.state(), steps=3, dt=0.01).final.particle_q
tape.backward(grads={end: sim.ones_like(end)})
print(",".join(count), end.numpy().tobytes().hex(), compliance.grad.numpy().tobytes().hex())
"""


def test_other_processes_know_what_one_has_traced(tmp_path) -> None:
    def started(seed: int) -> subprocess.Popen:
        found = {"SIM_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": str(seed), "PATH": ""}
        return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, env=found, text=True)

    both = [started(seed) for seed in (1, 2)]  # at once, with nothing known
    first, second = (one.communicate()[0].strip("\n").split(" ") for one in both)
    third = started(3).communicate()[0].strip("\n").split(" ")
    assert first[1:] == second[1:] == third[1:] and np.frombuffer(bytes.fromhex(third[2]), np.float32).any()
    assert len(first[0].split(",")) > 5
    # threads of `broadcast` may meet: it is looked at in the launch, by a variant that is known too
    assert "broadcast" in first[0].split(",") and third[0] == ""
