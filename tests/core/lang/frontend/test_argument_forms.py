"""Functions of the library refuse arguments that are not of the form they work on, in kernels and outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.tracing.argument_forms import WORDS
from sim.core.lang.library import INNER, LIBRARY, RANDOM

VEC2, VEC3, VEC4, QUAT = sim.vec2(1.0, 2.0), sim.vec3(1.0, 2.0, 3.0), sim.vec4(1.0), sim.quat()
MAT23 = sim.types.matrix(shape=(2, 3), dtype=float)(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sim.dot(VEC2, VEC3), "`dot` takes two of one type, got vec2<float32> and vec3<float32>"),
        (lambda: sim.dot(VEC4, QUAT), "`dot` takes two of one type"),
        (lambda: sim.dot(1.0, 2.0), "`dot` takes a vector or a quaternion for 'a', got float32"),
        (lambda: sim.cross(QUAT, QUAT), "`cross` takes a vec3 for 'a', got quat<float32>"),
        (lambda: sim.cw_mul(VEC2, VEC3), "takes two of one type"),
        (lambda: sim.quat_rotate(sim.transform(), VEC3), "`quat_rotate` takes a quaternion for 'q'"),
        (lambda: sim.quat_rotate(QUAT, VEC4), "`quat_rotate` takes a vec3 for 'x', got vec4<float32>"),
        (lambda: sim.transform_point(sim.mat33(), VEC3), "takes a transform or a mat44 for 't'"),
        (lambda: sim.determinant(MAT23), "`determinant` takes a square matrix for 'm', got mat23<float32>"),
        (lambda: sim.spatial_top(sim.transform()), "`spatial_top` takes a spatial vector for 'a'"),
        (lambda: sim.rand_init(2.7), "`rand_init` takes a whole number for 'seed', got float32"),
        (lambda: sim.randi(sim.rand_init(1), 1.5, 3.5), "`randi` takes a whole number for 'low'"),
        (lambda: sim.bit_count(1.5), "`bit_count` takes a whole number for 'x', got float32"),
        (lambda: sim.mat22() * sim.mat22d(), r"\* of mat22<float32> and mat22<float64>: there is no implicit conv"),
        (lambda: MAT23 @ VEC2, "the product of mat23<float32> and vec2<float32> is not defined: 3 columns, 2 rows"),
        (lambda: VEC3 * MAT23, "the product of vec3<float32> and mat23<float32> is not defined"),
        (lambda: MAT23 * MAT23, "the product of mat23<float32> and mat23<float32> is not defined"),
    ],
)
def test_other_forms_are_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(sim.KernelError, match=words):
        call()


def test_products_of_matrices_that_are_not_square() -> None:
    assert list(MAT23 @ VEC3) == [14.0, 32.0]
    assert list(VEC2 * MAT23) == [9.0, 12.0, 15.0]
    assert np.array_equal(MAT23 * sim.transpose(MAT23), [[14.0, 32.0], [32.0, 77.0]])


def test_the_line_of_the_kernel_is_told() -> None:
    @sim.kernel
    def mixed(x: sim.array[sim.vec3], y: sim.array[float]):
        y[0] = sim.dot(x[0], sim.vec2(1.0, 2.0))

    with pytest.raises(sim.KernelError, match=r"y\[0\] = sim.dot\(x\[0\], sim.vec2"):
        sim.launch(mixed, 1, [sim.zeros(1, dtype=sim.vec3), sim.zeros(1)])


def test_forms_name_parameters_and_known_forms() -> None:
    functions = [
        f for f in (*LIBRARY.values(), *RANDOM.values(), *INNER.values()) if isinstance(f, Function) and f.takes
    ]
    assert functions
    for function in functions:
        names = [p.name for p in function.parameters()]
        for name, form in function.takes.items():
            assert name in names
            assert form[1:] in names if form[0] in "=<" else set(form.split()) <= {*WORDS, "integer"}
