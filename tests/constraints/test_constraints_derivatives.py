"""Every registered constraint: C and its derived gradient, its projection, and the adjoint of its projection.

Everything is compared with NumPy and with differences in float64.  The adjoint of the projection holds second
derivatives of C, because the projection itself contains its gradient.
"""

import time

import numpy as np
import pytest
from tools.constraints.projection import evaluate, projection_inputs, reference
from tools.constraints.samples import EDGES, NAMES, OWN, SEED, Sample, sample, values
from tools.physics.steps import central, random_rotation

import sim
from sim.constraints import REGISTRY, Constraint
from sim.constraints.neo_hookean import STRETCH
from sim.constraints.projection import make_projection, value_type
from sim.constraints.stencils import ELEMENTS, TURNS

# multiplier zero before, damped, averaged: the solver's variants
VARIANTS = {"first": (True, False, False), "next, damped": (False, True, False), "averaged": (False, True, True)}
INTERNAL = [name for name in NAMES if REGISTRY[name].internal]
RESTING = [name for name in INTERNAL if not REGISTRY[name].unilateral]


def test_the_registry_holds_what_the_project_promises():
    assert {"distance", "shear", "bend", "attachment", "contact_plane", "contact_sphere", *OWN} <= set(NAMES)
    assert all(REGISTRY[name].doc for name in NAMES)


# ------------------------------------------------------------------------------------------ C and its gradient


@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradient(name):
    s = sample(name)
    C, J = evaluate(s)
    np.testing.assert_allclose(C, [s.of(k) for k in range(s.count)], rtol=1e-12, atol=1e-12)
    rng = np.random.default_rng(SEED)
    for k in range(s.count):
        for row in range(s.c.rows):
            direction = np.zeros_like(s.x)
            direction[s.points[k]] = rng.normal(size=(s.c.points, 3))
            want = central(lambda x, k=k, row=row: s.of(k, x)[row], s.x, direction)
            got = np.sum(J[k, row] * direction[s.points[k]])
            assert got == pytest.approx(want, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_constraints_exert_no_net_force_or_torque(name):
    s = sample(name)
    _, J = evaluate(s)
    np.testing.assert_allclose(J.sum(axis=2), 0, atol=1e-12)
    np.testing.assert_allclose(np.cross(s.x[s.points][:, None], J).sum(axis=2), 0, atol=1e-12)


# ------------------------------------------------------------------------------------------ at rest
def at_rest(name: str, seed: int) -> Sample:
    """Constraints of a random shape, with the parameters that it has at rest; all points free."""
    s = sample(name, seed=seed)
    if name == "own_pair":  # one value for two rows: the second edge is made twice as long as the first
        for a, b, c in s.points:
            edge = s.x[c] - s.x[a]
            s.x[c] = s.x[a] + edge * (2 * np.linalg.norm(s.x[b] - s.x[a]) / np.linalg.norm(edge))
    s.w = np.ones(len(s.x))
    if len(s.x[s.points[0]]) == 4 and s.c.measure is not None:  # solids: by NumPy's inverse and determinant
        edges = np.array([(s.x[rows][1:] - s.x[rows][0]).T for rows in s.points])
        inverse = np.linalg.inv(edges)
        s.parameters.update({n: inverse[:, k] for k, n in enumerate(("g1", "g2", "g3")) if n in s.parameters})
        s.parameters.update({n: np.zeros_like(s.parameters[n]) for n in s.c.internal_variables})
        if "rest" in s.parameters:
            s.parameters["rest"] = np.linalg.det(edges) / 6
        return s
    if "inverse" in s.parameters:  # sheets
        for k, rows in enumerate(s.points):
            a, b = s.x[rows][1:] - s.x[rows][0]
            long, area = np.linalg.norm(a), np.linalg.norm(np.cross(a, b))
            s.parameters["inverse"][k] = 1 / long, -(a @ b) / (long * area), long / area
        return s
    if "curvature" in s.parameters:  # plates
        s.parameters["rest"][:] = 0.0
        s.parameters["curvature"][:] = 1.0
        s.parameters.update({n: np.zeros(s.count) for n in ("curl_warp", "curl_weft") if n in s.parameters})
        at = [{n: v[k] for n, v in s.parameters.items()} for k in range(s.count)]
        found = np.array([values(REGISTRY["plate"], s.x[rows], at[k]) for k, rows in enumerate(s.points)])
        s.parameters["rest"] = found
        return s
    if "size" in s.parameters:  # boxes
        steps = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
        for rows, size in zip(s.points, s.parameters["size"], strict=True):
            s.x[rows] = s.x[rows[0]] + steps * size @ random_rotation(np.random.default_rng(seed)).T
        return s
    if s.c.points == 10:  # tetrahedra with straight edges
        corner = s.x[s.points[:, :4]]
        inverse = np.linalg.inv(np.swapaxes(corner[:, 1:] - corner[:, :1], 1, 2))
        s.parameters.update({n: inverse[:, k] for k, n in enumerate(("g1", "g2", "g3"))})
        s.x[s.points[:, 4:]] = corner[:, np.array(EDGES)].mean(axis=2)
        return s
    if name == "cell_volume":
        s.parameters["rest"] = np.array([(1.0 + values(s.c, s.x[rows], {"rest": 1.0})[0]) for rows in s.points])
        return s
    zeros = {n: np.zeros_like(v[0]) for n, v in s.parameters.items()}
    if name == "lever":
        axes = dict(zip(("axis_1", "axis_2", "axis_3"), np.eye(3), strict=True))
        s.parameters |= {n: np.tile(axis, (s.count, 1)) for n, axis in axes.items()}
        s.parameters["shift"] = np.zeros((s.count, 3))
        s.parameters["arm"] = np.array([values(s.c, s.x[rows], {**zeros, **axes}) for rows in s.points])
        return s
    found = np.array([values(s.c, s.x[rows], zeros) for rows in s.points])
    if "target" in s.parameters:
        s.parameters["target"] = found
    elif "near" in s.parameters:
        s.parameters["near"], s.parameters["far"] = found[:, :3], found[:, 3:]
    else:
        s.parameters["rest"] = found[:, 0]
    return s


@pytest.mark.parametrize("name", RESTING)
def test_rigid_motions_do_not_strain(name):
    rng = np.random.default_rng(SEED)
    for seed in range(5):
        s = at_rest(name, seed)
        moved = s.x @ random_rotation(rng).T + rng.normal(size=3)
        C, J = evaluate(s, moved)
        rounding = 1e-13 * max(10.0, np.abs(J).max())
        if "neo_hookean" not in name:  # whose two elastic rows cancel, as test_solids_statics shows of its forces
            np.testing.assert_allclose(C, 0, atol=rounding)
            continue
        solid = name.startswith("neo_hookean")
        first, second = (1 / STRETCH, s.parameters["softness"]) if solid else (1.0, np.ones(s.count))
        compliance = np.stack([np.full(s.count, first), second], axis=1)  # times mu V: 1 / (m mu V), 1 / (lambda' V)
        force = np.einsum("kr,krpx->kpx", C[:, :2] / compliance, J[:, :2])
        np.testing.assert_allclose(force, 0, atol=1e-13 * np.abs(J).max() ** 2)  # slivers have large gradients
        np.testing.assert_allclose(C[:, 2:], 0, atol=rounding)


@pytest.mark.parametrize("name", [n for n in NAMES if REGISTRY[n].unit])
def test_gradients_that_are_called_unit_are_of_length_one(name):
    s = sample(name)
    _, J = evaluate(s, s.x)
    np.testing.assert_allclose(np.linalg.norm(J, axis=-1), 1.0, rtol=1e-14)


def test_gradients_that_are_not_of_length_one_are_an_error():
    @sim.constraint(points=2, unit=True, name="own_square")
    def square(x, rest: float):
        return sim.length_sq(x[0] - x[1]) - rest

    try:
        with pytest.raises(sim.ConstraintError, match="unit=True"):
            make_projection(square, sim.float64, True, False, False)
    finally:
        del REGISTRY["own_square"]


def test_unit_gradients_are_those_of_one_row():
    with pytest.raises(sim.ConstraintError, match="one row"):
        sim.constraint(points=2, rows=2, unit=True)


def project(s: Sample, x: np.ndarray, compliance: np.ndarray) -> np.ndarray:
    """One undamped projection of all constraints of a sample, from multipliers zero."""
    a = s.arrays(x=x, compliance=compliance)
    none, dt = sim.zeros(1, sim.float64), 0.1
    multiplier = sim.zeros(s.count, value_type(s.c, sim.float64))
    kernel = make_projection(s.c, sim.float64, True, False, False)
    sim.launch(
        kernel,
        s.count,
        [0, a["points"], a["data"], a["compliance"], none, a["weights"], none, sim.clone(a["x"]), dt, a["x"]],
        [a["x"], multiplier],
    )
    return a["x"].numpy().copy()


@pytest.mark.parametrize("name", [*(n for n in RESTING if "neo_hookean" not in n), "attachment"])
def test_one_projection_without_compliance_leaves_a_quadratic_rest(name):
    """Projection is one Newton step along the gradient: |C| of order e becomes e^2 (exactly 0 where C is linear along
    it)."""
    direction = np.random.default_rng(SEED).normal(size=(100, 3))
    s = at_rest(name, 3)
    left = []
    for e in (2e-3, 1e-3, 5e-4):
        x = s.x + e * direction[: len(s.x)]
        before, _ = evaluate(s, x)
        after, _ = evaluate(s, project(s, x, np.zeros_like(s.compliance)))
        assert np.abs(before).max() > 0.1 * e
        left.append(np.linalg.norm(after))
    if left[0] > 1e-13:
        slopes = np.log2(np.array(left[:-1]) / left[1:])
        assert (slopes > 1.9).all(), slopes  # 2 up to O(e)


@pytest.mark.parametrize("name", [n for n in NAMES if REGISTRY[n].measured and REGISTRY[n].measure is None])
def test_rest_is_measured(name):
    s = sample(name, count=1)
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles(s.x, mass=1.0)
    builder.add_constraints(name, s.points, compliance=1.0, label="one")
    model = builder.finalize(dtype=sim.float64)
    zero = {n: np.zeros_like(v[0]) for n, v in s.parameters.items()}
    rest = model.constraint_sets[name].parameters["rest"].numpy()
    np.testing.assert_allclose(rest, values(s.c, s.x[s.points[0]], zero), rtol=1e-13)


def test_a_rest_of_another_size_than_C_is_not_measured():
    """Two rows and one number: there is nothing to measure it by, so it has to be given."""
    assert REGISTRY["own_pair"].measured == ()
    builder = sim.ModelBuilder()
    builder.add_particles(np.eye(3), mass=1.0)
    with pytest.raises(sim.ModelError, match="rest"):
        builder.add_constraints("own_pair", [[0, 1, 2]], compliance=1.0)


# ------------------------------------------------------------------------------------------ projection


def run_projection(
    s: Sample, host: dict[str, np.ndarray], variant: tuple[bool, bool, bool], dt: float
) -> dict[str, sim.array]:
    """The compiled projection: all its arrays, with `x_out` what it wrote."""
    a = s.arrays(**{n: host[n] for n in ("x", "w", "compliance", *s.parameters)})
    kinds = {
        "x_before": sim.vec3d,
        "damping": sim.float64,
        "split": sim.float64,
        "multiplier": value_type(s.c, sim.float64),
    }
    a |= {n: sim.array(host[n], dtype=t, requires_grad=True) for n, t in kinds.items()}
    # as the solver has it: in place over a colour, or into another array where corrections are averaged
    a["x_out"] = sim.array(host["x"], dtype=sim.vec3d, requires_grad=True) if variant[2] else a["x"]
    kernel = make_projection(s.c, sim.float64, *variant)
    sim.launch(
        kernel,
        s.count,
        [0, a["points"], a["data"], a["compliance"], a["damping"], a["weights"], a["split"], a["x_before"], dt, a["x"]],
        [a["x_out"], a["multiplier"]],
    )
    return a


# The kernels of elements of 8 and 10 points take long to compile: of these one variant is for every day.  That
# corrections are averaged makes no difference to C, so of each stencil one constraint is averaged.
FIRST = {REGISTRY[n].stencil: n for n in reversed(NAMES)}.values()
SLOW = [
    (n, v)
    for n in NAMES
    for v in VARIANTS
    if (REGISTRY[n].stencil in (ELEMENTS, TURNS) and v != "next, damped") or (v == "averaged" and n not in FIRST)
]


@pytest.mark.parametrize(
    ("name", "variant"),
    [pytest.param(n, v, marks=[pytest.mark.slow] * ((n, v) in SLOW)) for n in NAMES for v in VARIANTS],
)
def test_projection_and_its_adjoint(name, variant):
    s, flags, dt = sample(name), VARIANTS[variant], 0.2
    host = projection_inputs(s)
    rng = np.random.default_rng(SEED)
    weights = rng.normal(size=s.x.shape), rng.normal(size=s.compliance.shape)

    began = time.process_time()
    with sim.Tape() as tape:
        a = run_projection(s, host, flags, dt)
    x_out, multiplier = reference(s, host, flags, dt)
    np.testing.assert_allclose(a["x_out"].numpy(), x_out, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(a["multiplier"].numpy(), multiplier, rtol=1e-11, atol=1e-12)
    tape.backward(
        grads={
            a["x_out"]: sim.array(weights[0], dtype=sim.vec3d),
            a["multiplier"]: sim.array(weights[1], dtype=a["multiplier"].dtype),
        }
    )
    print(f"{name}, {variant}: compiled and run in {time.process_time() - began:.2f} s of process time")

    got = {n: a[n].grad.numpy().reshape(host[n].shape) for n in host}
    if flags[2]:
        got["x"] = got["x"] + a["x_out"].grad.numpy()  # both start as the same positions
    reached = []
    for n in host:
        if n == "w":  # pinned points stay pinned: a direction that unpins them would leave the branch
            direction = rng.normal(size=host[n].shape) * (host[n] > 0)
        else:
            direction = rng.normal(size=host[n].shape)

        def functional(value, n=n):
            out = run_projection(s, {**host, n: value}, flags, dt)
            return float(np.sum(weights[0] * out["x_out"].numpy()) + np.sum(weights[1] * out["multiplier"].numpy()))

        want = central(functional, host[n], direction)
        assert np.sum(got[n] * direction) == pytest.approx(want, rel=1e-6, abs=1e-8), n
        if abs(want) > 1e-6:
            reached.append(n)
    without = {"time"} if s.c.internal_variables else {"side"}  # time matters to the flow alone, a side by its sign
    read = {"x", "compliance", "w", *s.parameters} - without
    read |= {"x_before", "damping", "multiplier"} if flags[1] else set()
    read |= {"split"} if flags[2] else set()
    assert set(reached) == read


def test_pinned_points_do_not_move_and_multipliers_stay_finite():
    """All points of a constraint pinned, without compliance: nothing to solve, so nothing happens."""
    for name in NAMES:
        s = sample(name)
        s.w = np.zeros(len(s.x))
        np.testing.assert_array_equal(project(s, s.x, np.zeros_like(s.compliance)), s.x)


def test_a_wrong_number_of_rows_is_an_error():
    @sim.constraint(points=1, rows=2, internal=False, name="own_wrong_rows")
    def wrong(x, rest: float):
        return x[0][0] - rest

    try:
        with pytest.raises(sim.ConstraintError, match="rows=1"):
            wrong.traced()
    finally:
        del REGISTRY["own_wrong_rows"]
    assert isinstance(wrong, Constraint)
