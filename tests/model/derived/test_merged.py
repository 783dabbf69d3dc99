"""What many bodies have is derived together: as many launches as for two, values and gradients as of each alone."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tools.cuda.on_cpu import fake_gpu, needs_gxx

import sim
from sim.core.runtime.ambient.profile import profile
from sim.model.derived.arrays import ArrayFactory
from sim.model.derived.body_kernels import body_derivations
from sim.model.derived.derivation import MANY, Column, Derivation, Picked, broadcast
from sim.model.derived.merging import merged

WEDGE = (
    np.array([[0, 0, 0], [0.6, 0, 0], [0, 0.5, 0], [0, 0, 0.4]]),
    np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]),
)
TURN = sim.transform((0.02, -0.01, 0.03), sim.quat(0.1, 0.2, -0.1, 0.968))
DERIVED = (
    "body_q", "body_qd", "body_mass", "body_com", "body_inertia", "body_inv_mass", "body_inv_inertia",
    "shape_transform", "shape_scale", "shape_density", "shape_material_mu", "joint_X_p", "joint_X_c",
)  # fmt: skip

Add = Callable[[sim.ModelBuilder, int], object]


def config(k: int, **given: float) -> sim.ModelBuilder.ShapeConfig:
    return sim.ModelBuilder.ShapeConfig(**{"density": 500.0 + 37.0 * k} | given, mu=0.1 + 0.01 * k, touches=())


def body(b: sim.ModelBuilder, k: int, **given: object) -> int:
    place = {"xform": (3.0 * k, 0.1 * k, 0.0), "velocity": (0.1 * k, 0, 1), "spin": (0, 0.2 * k, 1), "label": f"b{k}"}
    return b.add_body(**place | given)


def given_moments(b: sim.ModelBuilder, k: int) -> None:
    body(b, k, mass=1.0 + 0.1 * k, inertia=(0.1, 0.12, 0.13 + 0.0005 * k), com=(0.01 * k, 0, 0))


def given_tensor(b: sim.ModelBuilder, k: int) -> None:
    body(b, k, mass=2.0 + 0.1 * k, inertia=(0.1, 0.12, 0.13 + 0.0005 * k, 0.01, 0.02, -0.01))


def box(b: sim.ModelBuilder, k: int) -> None:
    b.add_shape_box(body(b, k), TURN, 0.1 + 0.01 * k, 0.2, 0.3, cfg=config(k))


def ball(b: sim.ModelBuilder, k: int) -> None:
    b.add_shape_sphere(body(b, k), TURN, 0.1 + 0.01 * k, cfg=config(k))


def capsule(b: sim.ModelBuilder, k: int) -> None:
    b.add_shape_capsule(body(b, k), TURN, 0.1, 0.2 + 0.01 * k, cfg=config(k))


def cylinder(b: sim.ModelBuilder, k: int) -> None:
    b.add_shape_cylinder(body(b, k), TURN, 0.1, 0.2 + 0.01 * k, cfg=config(k))


def wedge(b: sim.ModelBuilder, k: int) -> None:
    surface = {"vertices": WEDGE[0], "indices": WEDGE[1]}
    b.add_shape_mesh(body(b, k), TURN, scale=(1.0 + 0.01 * k, 1.0, 1.0), cfg=config(k), **surface)


def two_shapes(b: sim.ModelBuilder, k: int) -> None:
    on = body(b, k, mass=0.5, inertia=(0.1, 0.1, 0.1))
    b.add_shape_box(on, TURN, 0.1, 0.2, 0.3, cfg=config(k), label="plate")
    b.add_shape_sphere(on, (0.3, 0.0, 0.01 * k), 0.1, cfg=config(k, mass=0.4 + 0.01 * k), label="knob")


def hinged(b: sim.ModelBuilder, k: int) -> None:
    on = body(b, k, mass=0.5, inertia=(0.1, 0.1, 0.1))
    b.add_joint_revolute(-1, on, (3.0 * k, 0.1 * k, 0.5), (0, 0, 0.5), (1, 0, 0), target_ke=1.0, label=f"h{k}")


KINDS: tuple[Add, ...] = (
    given_moments, given_tensor, box, ball, capsule, cylinder, wedge, two_shapes, hinged,
)  # fmt: skip


def built(numbers: Sequence[int], worlds: int = 1) -> sim.ModelBuilder:
    """Body k is of kind k, counted round."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for k in numbers:
        KINDS[k % len(KINDS)](builder, k)
    return builder.replicate(worlds) if worlds > 1 else builder


def weights(model: sim.Model, names: Sequence[str] = DERIVED) -> dict[sim.array, np.ndarray]:
    """Of the elements of derived arrays in a loss: numbers of the bodies', not of their order."""
    out = {}
    for a in (a for a in (getattr(model, name) for name in names) if a.size):
        shape = a.numpy().shape
        out[a] = np.broadcast_to(np.cos(1.0 + np.arange(np.prod(shape[1:], dtype=int)).reshape(shape[1:])), shape)
    return out


def loss(model: sim.Model) -> float:
    model.refresh()
    return float(sum((a.numpy() * w).sum() for a, w in weights(model).items()))


def gradients(model: sim.Model) -> dict[str, np.ndarray]:
    with sim.Tape() as tape:
        model.refresh()
    tape.backward(grads={a: w for a, w in weights(model).items() if a.requires_grad})
    return {path: np.array(a.grad.numpy()) for path, a in model.materials.items() if a.grad is not None}


def launches(count: int) -> dict[str, int]:
    """Of a gradient through a step, by kernel; and what the tape has recorded."""
    model = built(range(count * len(KINDS))).finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverXPBD(model, iterations=1)
    with profile() as found:
        with sim.Tape() as tape:
            end = sim.rollout(solver, model.state(), 1, 1 / 60).final
        tape.backward(grads={end.body_q: np.ones((model.body_count, 7))})
    return {name: k.calls for name, k in found.kernels.items()} | {"records": len(tape.records)}


def test_launches_of_a_gradient_do_not_grow_with_the_bodies():
    few = launches(6)
    assert few["records"] > 10
    assert launches(12) == few


@pytest.mark.parametrize("dtype", [sim.float32, sim.float64])
@pytest.mark.parametrize("worlds", [1, 3])
def test_many_have_the_values_and_gradients_of_each_alone(dtype, worlds):
    """To the bit: each takes the same numbers, and adds as many."""
    numbers = range(4 * len(KINDS))
    together = built(numbers, worlds).finalize(dtype=dtype, requires_grad=True)
    found = gradients(together)
    for k in numbers:
        alone = built([k], worlds).finalize(dtype=dtype, requires_grad=True)
        rows = together.bodies[f"b{k}"].bodies
        for name in (name for name in DERIVED if name.startswith("body")):
            np.testing.assert_array_equal(getattr(together, name).numpy()[rows], getattr(alone, name).numpy(), name)
        for shape in alone.shapes:
            there = next(s.numbers for s in together.shapes if s.label == shape.label)
            for name in (name for name in DERIVED if name.startswith("shape")):
                mine, theirs = (getattr(m, name).numpy() for m in (together, alone))
                np.testing.assert_array_equal(mine[there], theirs[shape.numbers], name)
        for path, mine in gradients(alone).items():
            if path != "gravity":
                np.testing.assert_array_equal(found[path], mine, path)
    assert len(found) > 200


def test_gradients_of_all_kinds_agree_with_differences():
    model = built(range(4 * len(KINDS)), 2).finalize(dtype=sim.float64, requires_grad=True)
    found, sought = gradients(model), 0
    for path, a in model.materials.items():
        host = a.numpy().copy()
        assert found[path].shape == host.shape
        for at in np.ndindex(host.shape):
            h = 1e-6 * max(1.0, abs(host[at]))
            ends = []
            for sign in (1.0, -1.0):
                moved = host.copy()
                moved[at] += sign * h
                a.assign(moved)
                ends.append(loss(model))
            a.assign(host)
            slope = (ends[0] - ends[1]) / (2 * h)
            assert found[path][at] == pytest.approx(slope, rel=1e-6, abs=1e-5), (path, at)
            sought += bool(slope)
    assert sought > 600


def test_only_what_is_asked_for_has_a_gradient_and_the_others_keep_theirs():
    model = built(range(4 * len(KINDS))).finalize(dtype=sim.float64, requires_grad=True)
    want = gradients(model)
    asked = next(path for path in model.materials if path.startswith("b3.") and path.endswith("radius"))
    for path, a in model.materials.items():
        a.grad.fill_(0.0 if path == asked else 7.0)
    with model.gradients_of([asked]):
        assert gradients(model).keys() == {asked}
    np.testing.assert_array_equal(model[asked].grad.numpy(), want[asked])
    assert all((a.grad.numpy() == 7.0).all() for path, a in model.materials.items() if path != asked)


def test_values_without_a_gradient_beside_others_with_one():
    model = built(range(4 * len(KINDS))).finalize(dtype=sim.float64, requires_grad=True)
    want = gradients(model)
    off = [path for path in model.materials if path.startswith(("b0.", "b3.", "b9."))]
    for path in off:
        model[path].requires_grad = False
    for a in model.materials.values():
        if a.grad is not None:
            a.grad.zero_()
    found = gradients(model)
    assert found.keys() == want.keys() - set(off)
    for path, value in found.items():
        np.testing.assert_array_equal(value, want[path], path)


def test_values_that_share_a_gradient_add_up():
    """One launch for all would add to it from several threads."""
    model = built(range(4 * len(KINDS))).finalize(dtype=sim.float64, requires_grad=True)
    want = gradients(model)
    for a in model.materials.values():
        a.grad = None
    shared = model["b0.mass"].grad
    model["b9.mass"].grad = shared
    found = gradients(model)
    assert want["b0.mass"] != want["b9.mass"]
    np.testing.assert_allclose(found["b0.mass"], want["b0.mass"] + want["b9.mass"], rtol=1e-14)
    np.testing.assert_array_equal(found["b1.mass"], want["b1.mass"])


def test_values_written_while_a_tape_records_lead_back_to_where_they_come_from():
    model = built(range(4 * len(KINDS))).finalize(dtype=sim.float64, requires_grad=True)
    mass = sim.array([1.7], dtype=sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        model["b9.mass"].assign(mass)
        model.refresh()
    assert model.body_mass.numpy()[9] == 1.7
    tape.backward(grads={model.body_mass: np.arange(1.0, 1.0 + model.body_count)})
    assert mass.grad.numpy()[0] == 10.0
    assert model["b9.mass"].grad.numpy()[0] == 0.0
    assert model["b0.mass"].grad.numpy()[0] == 1.0


def test_values_lost_to_the_tape_are_refused():
    model = built(range(4 * len(KINDS))).finalize(dtype=sim.float64, requires_grad=True)
    mass = sim.array([1.7], dtype=sim.float64, requires_grad=True)
    model["b9.mass"].requires_grad = False

    @sim.kernel
    def double(a: sim.array[sim.float64], b: sim.array[sim.float64]):
        b[0] = 2.0 * a[0]

    with sim.Tape(), pytest.raises(sim.GradientError, match="concatenation.*the gradient would be lost"):
        sim.launch(double, 1, [mass], [model["b9.mass"]])
        model.refresh()


def test_forward_mode_and_graphs_agree():
    model = built(range(4 * len(KINDS))).finalize(dtype=sim.float64, requires_grad=True)
    want = gradients(model)
    mass, given = model["b9.mass"], sim.array([1.9], dtype=sim.float64)

    def inverse(value: sim.array) -> list[sim.array]:
        mass.assign(value)
        model.refresh()
        return [sim.clone(model.body_inv_mass)]

    _, (slope,) = sim.autograd.jvp(inverse, [given], [np.ones(1)])
    expected = np.zeros(model.body_count)
    expected[9] = -1.0 / 1.9**2
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-14)
    with sim.capture() as graph:
        model.refresh()
    mass.assign([4.0])
    graph.replay()
    assert model.body_mass.numpy()[9] == 4.0
    mass.assign([1.9])
    with sim.capture() as graph:
        with sim.Tape() as tape:
            model.refresh()
        tape.zero()
        tape.backward(grads={a: sim.array(w, dtype=a.dtype) for a, w in weights(model).items() if a.size})
    graph.replay()
    for path, value in want.items():
        np.testing.assert_array_equal(model[path].grad.numpy(), value, path)


@needs_gxx
def test_the_same_as_text_of_cuda():
    host = built(range(4 * len(KINDS))).finalize(dtype=sim.float64, requires_grad=True)
    there = built(range(4 * len(KINDS))).finalize(fake_gpu(), dtype=sim.float64, requires_grad=True)
    for name in DERIVED:
        np.testing.assert_allclose(getattr(there, name).numpy(), getattr(host, name).numpy(), rtol=1e-12, err_msg=name)
    want = gradients(host)
    for path, value in gradients(there).items():
        np.testing.assert_allclose(value, want[path], rtol=1e-10, atol=1e-12, err_msg=path)


def test_what_is_stored_between_two_derivations_keeps_them_apart():
    """And so does a number of threads that is worth a launch."""
    make, real = ArrayFactory(sim.get_device("cpu"), sim.float64, False), sim.float64
    values = [sim.array([float(k)], dtype=real) for k in range(3)]
    a, b = (sim.zeros(3, dtype=real) for _ in range(2))

    def stored(k: int, out: sim.array, count: int = 1) -> Derivation:
        return broadcast(make, values[k], count, np.arange(count), np.full(count, k), out)

    def added(k: int) -> Derivation:
        """Of what is in `a` by then."""
        picked = Picked.of(values[k], np.arange(1), 1)
        kernel = body_derivations(real).offset_from_com
        return Derivation(kernel, 1, [picked, Column(np.arange(1), int), a], [b], derived=[a])

    three, then = [stored(k, a) for k in range(3)], [added(k) for k in range(3)]
    assert len(merged(three, make)) == 2  # one brings the values together
    assert len(merged(three[:2], make)) == 2  # with which one launch would save nothing
    assert len(merged([*three, stored(0, b)], make)) == 3
    assert len(merged([*three, stored(1, a, MANY + 1)], make)) == 3
    assert len(merged([*three, *then], make)) == 3  # of the same values, brought together once
    assert len(merged([then[0], *three, *then[1:]], make)) == 5
