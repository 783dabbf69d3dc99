"""print, printf and expect_...: the text that they show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, launch

from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.builtins import expect_eq, expect_near, expect_neq, print, printf
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.types import array_type, float32, float64, int32, matrix, quaternion, transformation, vector

vec3, vec2i, mat22 = vector(3, float32), vector(2, int32), matrix((2, 2), float32)
quat, transform = quaternion(float32), transformation(float32)


@pytest.fixture(params=BACKENDS, ids=lambda b: b.name)
def shown(request: Any, capfd: Any) -> Any:
    def show(python: Any, *values: float) -> str:
        x = np.array(values or (0.0,), np.float32)
        launch(request.param, trace_kernel(python, [array_type(float32)]), [1], [x])
        return str(capfd.readouterr().out)

    return show


def test_one_value_as_warp_prints_it(shown: Any) -> None:
    def k(x):
        print(x[0])
        print(0.1 * 3.0)
        print(vec3(x[0], 2.0, 3.5))
        print(vec2i(1, -2))
        print(mat22(1.0, 2.0, 3.0, x[0]))
        print(quat(1.0, 2.0, 3.0, 4.0))
        print(transform(vec3(1.0, 2.0, 3.0), quat(0.0, 0.0, 0.0, 1.0)))
        print(float64(1.0) / float64(3.0))
        print(x[0] > 1.0)
        print("{text}")

    assert shown(k, 1234567.0).splitlines() == [
        "1.23457e+06", "0.3", "1.23457e+06 2 3.5 ", "1 -2 ", "1 2 ", "3 1.23457e+06 ", "1 2 3 4",
        "(1 2 3) (0 0 0 1)", "0.333333", "True", "{text}",
    ]  # fmt: skip


def test_a_kernel_that_shows_a_text_alone(shown: Any) -> None:
    def k(x):
        print("hello")

    assert shown(k) == "hello\n"


def test_formats_of_c(shown: Any) -> None:
    def k(x):
        printf("%5d|%-5d|%05d|%x|%c|%lld|%%|{}\n", 3, 4, 5, 255, 65, -7)
        printf("%f %.2e %g %s %s\n", x[0], x[0], x[0], "text", x[0])

    assert shown(k, 2.5) == "    3|4    |00005|ff|A|-7|%|{}\n2.500000 2.50e+00 2.5 text 2.5\n"


def test_formats_that_do_not_fit_are_told() -> None:
    def whole(x):
        printf("%d\n", x[0])

    def many(x):
        printf("%f %f\n", x[0])

    def too_many(x):
        printf("", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2)

    kinds = [array_type(float32)]
    with pytest.raises(KernelError, match="%d takes an integer, got float32"):
        trace_kernel(whole, kinds)
    with pytest.raises(KernelError, match="takes 2 values, got 1"):
        trace_kernel(many, kinds)
    with pytest.raises(KernelError, match="maximum number of variadic arguments that can be passed to `printf` is 32"):
        trace_kernel(too_many, kinds)


def test_what_is_expected_prints_nothing(shown: Any) -> None:
    def k(x):
        expect_eq(x[0], 2.0)
        expect_eq(vec3(x[0]), vec3(2.0, 2.0, 2.0))
        expect_neq(vec3(x[0]), vec3(2.0, 2.0, 3.0))
        expect_near(x[0], 2.05, 0.1)
        expect_near(mat22(x[0]), mat22(2.05), tolerance=0.1)
        expect_near(a=x[0], b=2.0)

    assert shown(k, 2.0) == ""


def test_what_is_not_expected_prints_an_error_and_goes_on(shown: Any) -> None:
    def k(x):
        expect_eq(x[0], 3.0)
        expect_neq(x[0], 2.0)
        expect_near(vec3(x[0]), vec3(2.0, 2.25, 2.0), 0.125)
        expect_near(x[0], 2.1)
        x[0] = 5.0

    first, second, third, fourth = shown(k, 2.0).split("Error, ")[1:]
    assert first == "expect_eq() failed:\n\t Expected: 3\n\t Actual: 2\n"
    assert second == "expect_neq() failed:\n\t Expected: 2\n\t Actual: 2\n"
    assert third == (
        "expect_near() failed with tolerance 0.125\n"
        "    Expected: 2 2.25 2 \n    Actual: 2 2 2 \n    Max absolute difference: 0.25\n"
    )
    assert fourth.startswith("expect_near() failed with tolerance 1e-06\n    Expected: 2.1\n    Actual: 2\n")
