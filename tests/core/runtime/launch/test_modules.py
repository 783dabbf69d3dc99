"""Modules of kernels and their options, overloads of generic kernels, `enable_backward`."""

from __future__ import annotations

import gc
import importlib.util
import sys
from typing import Any

import numpy as np
import pytest

import sim


@sim.kernel
def fill(a: sim.array[Any], value: Any):
    a[sim.tid()] = value


@sim.kernel
def accumulate(a: sim.array[sim.float64], value: Any):
    a[0] += sim.float64(value)


@sim.kernel
def square(x: sim.array[float], y: sim.array[float]):
    y[0] = x[0] * x[0]


@sim.kernel(enable_backward=False)
def square_forward(x: sim.array[float], y: sim.array[float]):
    y[0] = x[0] * x[0]


@sim.kernel(enable_backward=True)
def square_both(x: sim.array[float], y: sim.array[float]):
    y[0] = x[0] * x[0]


@pytest.fixture
def options():
    found = sim.get_module_options()
    before = dict(found)
    yield found
    found.update(before)


def gradient(kernel) -> float:
    x = sim.array([3.0], dtype=float, requires_grad=True)
    y = sim.zeros(1, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(kernel, 1, inputs=[x], outputs=[y])
    assert y.numpy()[0] == 9.0
    tape.backward(y)
    return float(x.grad.numpy()[0])


# ---- overloads
def test_an_overload_converts_what_it_is_launched_with():
    made = sim.overload(fill, [sim.array[sim.float64], sim.float64])
    assert sim.overload(fill, {"a": sim.array[sim.float64], "value": sim.float64}) is made
    assert sim.overload(fill, [sim.zeros(3, dtype=sim.float64), sim.float64]) is made  # of an array: its type
    assert made.generic_parent is fill and not made.is_generic and fill.is_generic
    a = sim.zeros(2, dtype=sim.float64)
    sim.launch(made, 2, inputs=[a, 0.1])
    assert a.list() == [0.1, 0.1]  # not the float32 that a bare number is
    with pytest.raises(sim.LaunchError, match="expected float64"):
        sim.launch(made, 2, inputs=[sim.zeros(2, dtype=int), 1])


def test_overload_and_generic_kernel_share_what_is_traced():
    @sim.kernel
    def local(a: sim.array[Any], value: Any):
        a[sim.tid()] = value

    made = sim.overload(local, [sim.array[int], int])
    a = sim.zeros(2, dtype=int)
    sim.launch(made, 2, inputs=[a, 4])
    sim.launch(local, 2, inputs=[a, 5])
    assert a.list() == [5, 5] and len(local.specialisations) == 1 and len(local.overloads) == 1
    sim.launch(local, 2, inputs=[sim.zeros(2, dtype=float), 5.0])
    assert len(local.overloads) == 2


def test_a_dictionary_names_the_generic_arguments():
    made = sim.overload(accumulate, {"value": sim.bool})
    a = sim.zeros(1, dtype=sim.float64)
    sim.launch(made, 1, inputs=[a, True])
    assert a.list() == [1.0]


def test_overload_as_a_decorator():
    with pytest.raises(ValueError, match="name='1 a' is no valid C.. identifier"):
        sim.kernel(name="1 a")

    @sim.kernel(name="scaled")
    def scale(a: sim.array[Any], by: Any):
        a[sim.tid()] *= by

    @sim.overload
    def scale(a: sim.array[sim.float64], by: sim.float64): ...  # noqa: F811

    assert scale.key == "scaled" and len(scale.overloads) == 1
    a = sim.array([2.0], dtype=sim.float64)
    sim.launch(scale, 1, inputs=[a, sim.float64(1.5)])
    assert a.list() == [3.0]


def test_what_cannot_be_overloaded():
    with pytest.raises(sim.KernelError, match="'square' is not generic"):
        sim.overload(square, [sim.array[float], sim.array[float]])
    with pytest.raises(sim.KernelError, match="takes 2 arguments, got 1 types"):
        sim.overload(fill, [int])
    with pytest.raises(sim.KernelError, match="argument 'a' is array"):
        sim.overload(fill, [float, float])
    with pytest.raises(sim.KernelError, match=r"no argument 'valeu' \(did you mean 'value'"):
        sim.overload(fill, {"valeu": int})
    with pytest.raises(sim.KernelError, match="argument 'value' is generic"):
        sim.overload(fill, [sim.array[float], Any])
    with pytest.raises(sim.KernelError, match="no kernel `nowhere`"):

        @sim.overload
        def nowhere(a: int): ...


def test_an_overload_gives_types_only():
    @sim.kernel
    def local(a: Any):
        a[0] = a[1]

    with pytest.raises(sim.KernelError, match="has a body"):

        @sim.overload
        def local(a: sim.array[float]):
            a[0] = 1.0

    with pytest.raises(sim.KernelError, match="more than one|no kernel|returns something"):

        @sim.overload
        def local(a: sim.array[float]) -> float: ...


# ---- modules
def test_a_kernel_belongs_to_the_module_that_defines_it():
    module = sim.get_module(__name__)
    assert square.module is module and module.kernels["square"] is square and square.key == "square"

    @sim.kernel(module="tests.of.elsewhere")
    def other(a: sim.array[float]):
        a[0] = 1.0

    assert sim.get_module("tests.of.elsewhere").kernels == {other.key: other}
    del other
    gc.collect()
    assert not sim.get_module("tests.of.elsewhere").kernels


def test_loading_compiles_and_leaves_errors_to_the_launch():
    @sim.kernel(module="tests.of.loading")
    def good(a: sim.array[float], n: int):
        a[0] = float(n)

    @sim.kernel(module="tests.of.loading")
    def bad(a: sim.array[float]):
        a[0] = nothing_of_that_name  # noqa: F821

    @sim.kernel(module="tests.of.loading")
    def generic(a: sim.array[Any]):
        a[0] = a[1]

    typed = sim.overload(generic, [sim.array[int]])
    module = good.module
    assert module.load("cpu") is False
    (spec,) = good.specialisations.values()
    compiled = dict(spec.forward._executables)
    assert len(compiled) == 2 and len(typed.specialisations) == 1
    a = sim.zeros(1, dtype=float)
    sim.launch(good, 1, inputs=[a, 3])
    assert a.list() == [3.0] and spec.forward._executables == compiled  # what was loaded is what runs
    with pytest.raises(sim.KernelError, match="nothing_of_that_name"):
        sim.launch(bad, 1, inputs=[a])
    module.unload()
    assert not good.specialisations
    sim.launch(good, 1, inputs=[a, 4])
    assert a.list() == [4.0]


def test_load_module_warns_about_what_cannot_be_compiled():
    @sim.kernel(module="tests.of.warnings")
    def sound(a: sim.array[float]):
        a[0] = 1.0

    @sim.kernel(module="tests.of.warnings")
    def broken(a: sim.array[float]):
        a[0] = nothing_of_that_name  # noqa: F821

    with pytest.warns(UserWarning, match="(?s)kernel 'broken' cannot be compiled: .*nothing_of_that_name") as caught:
        sim.load_module("tests.of.warnings", device="cpu")
    assert len(caught) == 1 and caught[0].filename == __file__
    assert sound.specialisations


def test_load_module_by_name_object_and_caller():
    for given in (None, __name__, sys.modules[__name__], sim.get_module(__name__)):
        square.unload()
        sim.load_module(given, device="cpu")
        assert square.specialisations
    square.unload()
    sim.force_load("cpu", [__name__])
    assert square.specialisations
    with pytest.raises(RuntimeError, match="'no.such.place' defines no kernels"):
        sim.load_module("no.such.place")


def test_a_module_of_its_own_is_shared_by_equal_definitions():
    def make(**options):
        @sim.kernel(module="unique", module_options=options)
        def twice(a: sim.array[float]):
            a[0] *= 2.0

        return twice

    one, two, other = make(), make(), make(fast_math=True)
    assert one is two and one.module is two.module
    assert other is not one and other.module.name != one.module.name and other.module.options["fast_math"] is True

    def hinted(spilling):
        @sim.kernel(module="unique", enable_cuda_smem_spilling=spilling)
        def twice(a: sim.array[float]):
            a[0] *= 2.0

        return twice

    assert hinted(None) is hinted(False) is not hinted(True)  # False says what holds anyway

    def around(factor):
        @sim.kernel(module="unique")
        def times(a: sim.array[float]):
            a[0] *= factor

        return times

    def chosen(values):
        @sim.kernel(module="unique")
        def first(a: sim.array[float]):
            a[0] = float(values[0])

        return first

    a = sim.array([1.0], dtype=float)
    kept = around(2.0)
    assert around(2.0) is kept is not around(2)
    assert chosen((1, (2.0, "a"))) is chosen((1, (2.0, "a"))) is not chosen((1, (2, "a")))
    assert chosen([1, 2]) is not chosen([1, 2])  # which may change, each for itself
    assert kept.module.name != around(3.0).module.name
    sim.launch(around(3.0), 1, inputs=[a])
    assert a.list() == [3.0]

    def changing(factor):
        @sim.kernel(module="unique")
        def times(a: sim.array[float]):
            a[0] *= factor

        def change():
            nonlocal factor
            factor = 5.0

        return times, change

    (first, change), (second, _) = changing(2.0), changing(2.0)
    change()
    sim.launch(second, 1, inputs=[a])
    assert first is not second and a.list() == [6.0]


def test_the_hash_of_a_module_is_that_of_what_its_kernels_compute():
    def make(factor, kind, **options):
        @sim.struct
        class Item:
            x: kind

        @sim.kernel(module="unique", module_options=options)
        def scale(a: sim.array[Item], b: sim.array[Any]):
            b[0] = b[0] * b[0]

        @sim.kernel(module=scale.module)
        def other(a: sim.array[Item]):
            a[0].x = kind(sim.static(factor * 2))

        return scale, other

    known = {}
    for given in ((1, float), (2, float), (1, int)):
        made, again = make(*given), make(*given)  # kept: a module does not keep its kernels
        known[given] = made[0].module.hash_module()
        assert again[0].module.hash_module() == known[given]
    assert len(set(known.values())) == 3 and make(1, float, fast_math=True)[0].module.hash_module() != known[1, float]
    before = made[0].module.get_module_hash()
    sim.launch(made[0], 1, [sim.zeros(1, dtype=made[0].parameters[0].type.dtype), sim.zeros(1)])
    assert before != made[0].module.get_module_hash() == made[0].module.get_module_hash()


def test_options_that_are_not_there():
    with pytest.raises(ValueError, match="no option 'enable_backwards' \\(did you mean 'enable_backward'"):
        sim.set_module_options({"enable_backwards": False})
    with pytest.raises(ValueError, match='module="unique"'):
        sim.kernel(module_options={"fast_math": True})
    with pytest.raises(TypeError, match="module_options must be a dict"):
        sim.kernel(module="unique", module_options=["fast_math"])
    with pytest.raises(TypeError, match="no option 'launch_bound'"):
        sim.kernel(launch_bound=128)
    with pytest.raises(TypeError, match="deterministic_max_records is a whole number, not True"):
        sim.set_module_options({"deterministic_max_records": True})
    with pytest.raises(ValueError, match="it is not negative"):
        sim.set_module_options({"deterministic_max_records": -1})


# ---- enable_backward
def test_a_kernel_without_backward_gives_no_gradient_instead_of_a_wrong_one(options):
    assert gradient(square) == gradient(square_both) == 6.0
    with pytest.raises(sim.GradientError, match="'square_forward', which has enable_backward=False"):
        gradient(square_forward)
    sim.set_module_options({"enable_backward": False})
    assert options["enable_backward"] is False and gradient(square_both) == 6.0
    with pytest.raises(sim.GradientError, match="'square', which has enable_backward=False"):
        gradient(square)


def test_new_modules_begin_with_the_setting(monkeypatch):
    monkeypatch.setattr(sim.config, "enable_backward", False)
    assert sim.get_module("tests.of.settings").options["enable_backward"] is False
    assert sim.get_module(__name__).options["enable_backward"] is True


def test_what_it_writes_may_be_used_where_no_gradient_goes_back():
    x = sim.array([3.0], dtype=float, requires_grad=True)
    seen, y = sim.zeros(1, dtype=float), sim.zeros(1, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(square_forward, 1, inputs=[x], outputs=[seen])
        sim.launch(square_both, 1, inputs=[x], outputs=[y])
    tape.backward(y)
    np.testing.assert_array_equal(x.grad.numpy(), [6.0])
    assert seen.list() == [9.0]


def test_a_kernel_that_uses_what_is_not_supported_does_not_keep_its_module_from_loading():
    @sim.kernel
    def refused(a: sim.bfloat16, b: sim.array[float]):
        b[0] = 1.0

    assert sim.get_module(__name__).load("cpu") is False
    with pytest.raises(sim.NotSupportedError):
        sim.launch(refused, 1, inputs=[1.0, sim.zeros(1, dtype=float)])


def test_loading_a_module_of_this_package_does_nothing():
    sim.load_module(sim.utils)


def test_kernels_that_no_function_defines_are_kept_by_their_module(tmp_path):
    text = "import sim\n\n@sim.kernel\ndef k(x: sim.array[float]):\n    x[0] = {}\n\nk = None\n"
    (tmp_path / "kernels_of_a_test.py").write_text(text.format(1.0))
    spec = importlib.util.spec_from_file_location("kernels_of_a_test", tmp_path / "kernels_of_a_test.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    gc.collect()
    assert list(sim.get_module("kernels_of_a_test").kernels) == ["k"]
    sim.get_module("kernels_of_a_test").load("cpu")
