"""Constraints on mixtures of particles, bodies and the world: their projection against NumPy, its derivatives."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tools.constraints.samples import SEED
from tools.constraints.slots import SlotSample, slot_sample
from tools.physics.steps import central
from tools.tapes.gradients import backend

import sim

OUTPUTS = ("x", "dx", "turn", "impulse", "multiplier")
FIRST, NEXT, START = (True, False, True), (False, True, False), (False, True, True)
VARIANTS = {"first": FIRST, "next, damped": NEXT, "next, damped, start": START}
"""First projection of a step, damped, along the gradients of the start."""

POSES = ("x", "x_ref", "body_x", "body_q", "dx", "turn")
MASSES = ("w", "inv_mass", "inv_inertia")

ALWAYS = [
    ("attachment", "a", "next, damped, start"), ("distance", "pa", "next, damped, start"), ("distance", "aa", "first"),
    ("bend", "paab", "next, damped"), ("ball", "ab", "first"), ("revolute", "wa", "next, damped, start"),
    ("friction_angle", "wa", "first"), ("drive_angle", "ab", "next, damped"),
    ("contact_box", "ap", "first"), ("contact_ridge_side", "ab", "first"), ("contact_rim_mesh", "ab", "first"),
]  # fmt: skip
PATTERNS = {
    "attachment": "a", "contact_sphere": "a", "contact_plane": "a", "distance": "pa ap aa wa", "shear": "ab",
    "bend": "paab aabb wpab", "volume": "paaa", "membrane_stvk": "pab", "membrane_neo_hookean": "aab",
    "fabric": "apa", "stvk": "aaab", "neo_hookean": "ppaa", "ball": "ab pa wa ap pp", "revolute": "wa ab",
    "prismatic": "ab aw", "fixed": "ab wa", "drive_angle": "ab", "drive_distance": "wa", "limit_angle": "aw",
    "limit_distance": "ab", "friction_angle": "wa", "friction_distance": "ab",
    "contact_points": "ab pa", "contact_rim": "aa", "contact_box": "ap wp ab", "contact_capsule": "ap wa",
    "contact_cylinder": "ap wa", "contact_ridge_side": "ab wa", "contact_rim_mesh": "ab wa",
    "contact_ball_triangle": "appp wppp", "contact_capsule_edge": "aapp",
}  # fmt: skip
CASES = [
    pytest.param(name, kinds, v, marks=() if (name, kinds, v) in ALWAYS else pytest.mark.slow)
    for name, patterns in PATTERNS.items()
    for kinds in patterns.split()
    for v in VARIANTS
]


@pytest.fixture(autouse=True)
def interpreted():
    with backend("interp", sys.modules[__name__]):
        yield


def after(s: SlotSample, variant: tuple[bool, bool, bool], **replaced: np.ndarray) -> dict[str, np.ndarray]:
    a = s.arrays({**s.host, **replaced})
    s.launch(a, variant)
    return {n: a[n].numpy().copy() for n in OUTPUTS}


@pytest.mark.parametrize(("name", "kinds", "variant"), CASES)
def test_projection_and_its_derivatives(name, kinds, variant):
    """The projection against NumPy's, whose gradients of C are differences; and the adjoint by all that it reads."""
    s, chosen = slot_sample(name, kinds), VARIANTS[variant]
    found, wanted = after(s, chosen), s.projected(chosen)
    for n in OUTPUTS:
        np.testing.assert_allclose(found[n], wanted[n], rtol=1e-8, atol=1e-9, err_msg=n)

    rng = np.random.default_rng(SEED)
    weights = {n: rng.normal(size=found[n].shape) for n in OUTPUTS}
    a = s.arrays(s.host)
    with sim.Tape() as tape:
        s.launch(a, chosen)
    tape.backward(grads={a[n]: sim.array(weights[n], dtype=a[n].dtype) for n in OUTPUTS})
    got, want = {}, {}
    for group in (POSES, MASSES, None):
        names = [n for n in s.host if (n in group if group else n not in POSES + MASSES)]
        along = {n: rng.normal(size=s.host[n].shape) * (s.host[n] != 0) for n in names}

        def loss(h: float, along: dict[str, np.ndarray] = along) -> float:
            moved = after(s, chosen, **{n: s.host[n] + h * v for n, v in along.items()})
            return sum(float((weights[m] * moved[m]).sum()) for m in OUTPUTS)

        key = group or "others"
        want[key] = central(loss, 0.0, 1.0, 1e-4)
        got[key] = sum(float((a[n].grad.numpy() * v).sum()) for n, v in along.items())
    assert got == pytest.approx(want, rel=1e-6, abs=1e-6)
