"""Calls of library functions as Warp programs write them: names of parameters, and variables for the results."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.core.lang import library
from sim.core.lang.frontend.function import Function


@sim.kernel
def decomposed(a: sim.array(dtype=sim.mat33), out: sim.array(dtype=sim.mat33)):
    u, s, v = sim.mat33(), sim.vec3(), sim.mat33()
    sim.svd3(a[0], u, s, v)
    out[0] = u * sim.diag(s) * sim.transpose(v)
    q, r = sim.mat33(), sim.mat33()
    sim.qr3(a[0], q, r)
    out[1] = q * r
    d = sim.vec3()
    sim.eig3(a[0], q, d)
    out[2] = q * sim.diag(d) * sim.transpose(q)
    two_u, two_s, two_v = sim.mat22(), sim.vec2(), sim.mat22()
    two = sim.mat22(a[0][0, 0], a[0][0, 1], a[0][1, 0], a[0][1, 1])
    sim.svd2(two, two_u, two_s, two_v)
    out[3][0, 0] = sim.length(two_s)
    axis, angle = sim.vec3(), 0.0
    sim.quat_to_axis_angle(sim.quat_from_axis_angle(sim.vec3(0.0, 1.0, 0.0), 0.5), axis, angle)
    out[4] = sim.mat33(angle)
    sim.qr3(a[0], out[5], out[6])


def test_results_go_to_variables() -> None:
    a = np.random.default_rng(2).normal(size=(3, 3)).astype(np.float32)
    out = sim.zeros(7, dtype=sim.mat33)
    sim.launch(decomposed, dim=1, inputs=[sim.array([a], dtype=sim.mat33), out])
    svd, qr, eig, two, angle, q, r = out.numpy()
    for found, expected in ((svd, a), (qr, a), (eig, (a + a.T) / 2), (q @ r, a)):
        np.testing.assert_allclose(found, expected, atol=2e-6)
    np.testing.assert_allclose(two[0, 0], np.linalg.norm(a[:2, :2]), rtol=1e-6)
    np.testing.assert_allclose(angle, 0.5, rtol=1e-6)


def test_parameters_have_warps_names_too() -> None:
    identity = sim.transform_identity()
    assert sim.transform_point(xform=identity, point=sim.vec3(1.0, 2.0, 3.0)) == sim.vec3(1.0, 2.0, 3.0)
    assert sim.smoothstep(a=0.0, b=2.0, x=1.0) == 0.5
    state = sim.rand_init(42)
    assert sim.curlnoise(xy=sim.vec2(0.3, 0.7), state=state) == sim.curlnoise(state, sim.vec2(0.3, 0.7))


def test_synonyms_name_parameters() -> None:
    for names, synonyms in library.SYNONYMS.items():
        for name in names.split():
            function: Any = library.LIBRARY[name]
            assert isinstance(function, Function)
            known = [p.name for p in function.parameters()]
            used = [ours for ours in synonyms.values() if ours in known]
            assert used and not set(synonyms) & set(known), name


def test_types_that_constants_and_names_say() -> None:
    """Constants that are all bool make a vector or matrix of bool; a named matrix type may get its shape once more."""
    mat32d = sim.types.matrix(shape=(3, 2), dtype=sim.float64)

    @sim.func
    def made():
        again = mat32d(mat32d(2.0), shape=(3, 2))
        return sim.vector(True, False), sim.matrix(True, False, True, True, shape=(2, 2)), again

    v, m, again = made()
    assert (v.type.dtype, m.type.dtype) == (sim.bool, sim.bool)
    assert list(v) == [True, False]
    assert again.type is mat32d and again[2, 1] == 2.0
