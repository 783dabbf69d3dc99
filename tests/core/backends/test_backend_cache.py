"""The compile cache: shared between processes, indifferent to damage, optional."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from tools.backends.kernels import launch, result, scale
from tools.places import ROOT

import sim
from sim.core.backends import cache, objects
from sim.core.backends.base import symbol_name
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.backends.llvm.machine_code import toolchain as llvm
from sim.core.backends.llvm.machine_code.toolchain import toolchain
from sim.core.backends.llvm.python_calls import builtin_run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    builtin_run(0, None)  # what calls kernels is itself compiled, once
    monkeypatch.setenv("SIM_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def builds(monkeypatch) -> list[int]:
    """Grows by one for every kernel that is really compiled."""
    count: list[int] = []
    build = type(toolchain()).build

    def counted(self, *args):
        count.append(1)
        return build(self, *args)

    monkeypatch.setattr(type(toolchain()), "build", counted)
    return count


def test_hit_miss_and_clear(folder, builds) -> None:
    assert (result(2.0), result(2.0), result(3.0)) == (2, 2, 3)
    assert len(builds) == 2 and len(list(folder.iterdir())) == 2
    assert cache.clear_kernel_cache() == 2 and not list(folder.iterdir())
    assert result(2.0) == 2 and len(builds) == 3


def test_options_are_part_of_the_key(builds) -> None:
    func = scale(2.0)
    x = np.ones(1, np.float32)
    for check, level, packed in ((False, 3, ()), (True, 3, ()), (False, 1, ()), (False, 3, (0,))):
        func.attrs["packed"] = packed
        launch(LlvmBackend(level), func, [1], [x], check=check)
    assert len(builds) == 4 and x[0] == 16


def test_the_same_text_is_compiled_for_each_way_and_processor(builds, monkeypatch) -> None:
    text, symbol = LlvmBackend.text(scale(2.0)), symbol_name(scale(2.0))
    for _ in range(2):
        for way in ((3, False), (3, True), (1, False), (1, True), (3, True, True)):
            llvm.load_functions(text, (symbol,), *way)
    assert len(builds) == 5
    monkeypatch.setattr(llvm, "host", lambda: "another processor")
    llvm.load_functions(text, (symbol,))
    assert len(builds) == 6


def test_kernels_that_differ_in_their_names_only_are_compiled_once(builds) -> None:
    for name in ("distance", "shear"):
        func, x = scale(2.0), np.ones(1, np.float32)
        func.name = name
        launch(LlvmBackend(), func, [1], [x])
        assert x[0] == 2
    assert len(builds) == 1


def test_keys_tell_parts_apart() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("a", "b", "c"), ("c", "ab"), (), ("",)]
    keys = {cache.cache_key(*p) for p in parts}
    assert len(keys) == len(parts) and all(len(key) == 64 for key in keys)
    assert cache.cache_key("ab", "c") == cache.cache_key("ab", "c")


def test_another_format_is_another_key_and_another_file(monkeypatch) -> None:
    before = cache.cache_key("a")
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    assert cache.cache_key("a") != before
    cache.save("k", b"payload")
    assert cache.load("k") == b"payload" and cache.load("other") is None
    monkeypatch.setattr(cache, "_MAGIC", cache._MAGIC[:-1] + b"\xff")
    assert cache.load("k") is None


def test_a_payload_of_nothing_is_a_payload() -> None:
    cache.save("empty", b"")
    assert cache.load("empty") == b""


def test_what_is_there_is_counted(folder) -> None:
    assert cache.kernel_cache_size() == (0, 0)
    cache.save("a", bytes(100))
    cache.save("b", bytes(50))
    (folder / "left.tmp").write_bytes(b"half a file")
    count, size = cache.kernel_cache_size()
    assert count == 2 and size == 150 + 2 * 48
    assert cache.clear_kernel_cache() == 2 and not list(folder.iterdir())


def test_a_full_cache_is_trimmed_at_the_first_save_of_a_process_and_every_so_often(folder, monkeypatch) -> None:
    trimmed = []
    monkeypatch.setattr(cache, "_trim", trimmed.append)
    monkeypatch.setattr(cache, "_puts", 0)
    counts = []
    for k in range(2 * cache._TRIM_EVERY + 1):
        cache.save(f"{k}", b"")
        counts.append(len(trimmed))
    assert counts == [1] * cache._TRIM_EVERY + [2] * cache._TRIM_EVERY + [3] and set(trimmed) == {folder}


def test_a_save_that_fails_leaves_nothing_behind(folder, monkeypatch) -> None:
    def fails(*args):
        raise OSError("no room")

    monkeypatch.setattr(cache.os, "replace", fails)
    with pytest.warns(UserWarning, match="compiled kernels are not kept: no room"):
        cache.save("k", b"payload")
    assert not list(folder.iterdir()) and cache.load("k") is None


def test_a_cache_within_its_limit_is_left_alone(folder, monkeypatch) -> None:
    for k in range(3):
        cache.save(f"{k}", bytes(1000))
    monkeypatch.setattr(cache, "_SIZE_LIMIT", 3 * 1048)
    cache._trim(folder)
    assert len(list(folder.iterdir())) == 3
    monkeypatch.setattr(cache, "_SIZE_LIMIT", 3 * 1048 - 1)
    cache._trim(folder)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", [
    lambda raw: b"", lambda raw: raw[:20], lambda raw: raw[:-1], lambda raw: raw + b"x", lambda raw: b"X" + raw[1:],
    lambda raw: raw[:200] + bytes([raw[200] ^ 1]) + raw[201:],
], ids=["empty", "header cut", "truncated", "longer", "magic", "bit flip"])  # fmt: skip
def test_damaged_files_are_rebuilt(folder, builds, damage) -> None:
    result(2.0)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert result(2.0) == 2 and len(builds) == 2
    assert cache.load(file.stem) is not None
    assert result(2.0) == 2 and len(builds) == 2


def test_a_directory_that_cannot_be_written_warns_once(tmp_path, monkeypatch, builds) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SIM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="SIM_CACHE_DIR"):
        assert result(2.0) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert result(3.0) == 3
    assert len(builds) == 2


def test_the_least_recently_used_go_first(folder, monkeypatch) -> None:
    folder.mkdir()
    for k, age in enumerate((300, 100, 200)):
        cache.save(f"{k}", bytes(1000))
        os.utime(folder / f"{k}.kernel", (1e9 - age, 1e9 - age))
    cache.load("0")  # now the latest
    monkeypatch.setattr(cache, "_SIZE_LIMIT", 2500)
    cache._trim(folder)
    assert sorted(p.stem for p in folder.iterdir()) == ["0", "1"]


def test_processes_share_the_cache(folder) -> None:
    """Several processes compile the same kernels at once; each gets right results, and each kernel is there once."""
    code = textwrap.dedent("""
        import sys
        sys.path[:0] = ["tests", "."]
        from tools.backends.kernels import result
        assert [result(2.0 + k) for k in range(5)] == [2.0 + k for k in range(5)]
    """)
    workers = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(3)]
    assert [w.wait() for w in workers] == [0, 0, 0]
    assert len(list(folder.iterdir())) == 5 + 1, "and what calls kernels"
    assert all(cache.load(p.stem) for p in folder.iterdir())


def test_printing_kernels_work_from_the_cache_in_another_process(folder) -> None:
    code = textwrap.dedent("""
        import sys
        sys.path[:0] = ["tests", "."]
        import numpy as np
        from tools.backends.kernels import kernel, launch
        from sim.core.backends.llvm.backend import LlvmBackend
        from sim.core.lang.ir.core import Op
        from sim.core.lang.types import array_type, float32
        show = lambda b, x: b.append(Op("print", b.load(x, [b.tid(0)], [0]), [], {"format": "<{}>"}))
        launch(LlvmBackend(), kernel([array_type(float32)], show), [1], [np.full(1, 1.5, np.float32)])
    """)
    for _ in range(2):
        command, root = [sys.executable, "-c", code], ROOT
        assert subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout == "<1.5>"
    assert len(list(folder.iterdir())) == 1 + 1, "and what calls kernels"


def test_default_directory(monkeypatch) -> None:
    monkeypatch.delenv("SIM_CACHE_DIR")
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
        assert cache.kernel_cache_dir() == Path("/somewhere/simopt")
        monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.kernel_cache_dir().name == "simopt"
    assert Path.home() in cache.kernel_cache_dir().parents


# ------------------------------------------------------------------------------------------ loading without LLVM
WARM = """
import sys
import sim
exec(open(sys.argv[1]).read())
print("llvmlite" in sys.modules)
"""

PROGRAM = """
from warm_kernels import angle
x = sim.array([0.25, -3.0])
sim.launch(angle, 2, [x])
print(x.list())
"""

KERNELS = """
import sim

@sim.kernel
def angle(x: sim.array[float]):
    i = sim.tid()
    x[i] = sim.atan2(x[i], 2.0) + sim.sin(x[i])
"""


@pytest.mark.skipif(not objects.supported(), reason="a loader of our own exists for Linux on x86-64")
def test_a_warm_start_does_without_llvm(tmp_path):
    """Also where the kernel calls the mathematical library."""
    (tmp_path / "warm_kernels.py").write_text(KERNELS)
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([str(tmp_path), str(Path(sim.__file__).parents[1])])
    env = {**os.environ, "SIM_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    env.pop("SIM_BACKEND", None)
    shown = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", WARM, str(tmp_path / "program.py")],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        shown.append(done.stdout.splitlines())
    (first, cold), (second, warm) = shown
    assert first == second and (cold, warm) == ("True", "False")


@pytest.mark.skipif(not objects.supported(), reason="a loader of our own exists for Linux on x86-64")
def test_what_the_loader_does_not_know_is_left_to_llvm(monkeypatch):
    """A relocation of another type, a function that nobody knows: None, and the kernel still runs."""
    func = scale(5.0)
    symbol = symbol_name(func)
    code = toolchain().build(LlvmBackend.text(func), 3, False)
    assert objects.load_object(code, (symbol,), {}) is not None
    assert objects.load_object(code, ("kernel_of_somebody_else",), {}) is None
    text = (
        "declare void @nobody_has_this()\ndefine void @f(ptr %b, i64 %x, i64 %y) { call void @nobody_has_this()\n ret"
        " void }\n"
    )
    assert objects.load_object(toolchain().build(text, 0, False), ("f",), {}) is None
    monkeypatch.setattr(objects, "_ABSOLUTE_64", 77)
    text = (
        "@table = constant [2 x i64] [i64 3, i64 4]\ndefine i64 @f(i64 %k) nounwind {\n%p = getelementptr i64, ptr"
        " @table, i64 %k\n"
    )
    text += "%v = load i64, ptr %p\nret i64 %v }\n"
    code = toolchain().build(text, 0, False)
    assert objects.load_object(code, ("f",), {}) is None
    monkeypatch.undo()
    owner, (address,) = objects.load_object(code, ("f",), {})
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(1) == 4 and owner is not None
