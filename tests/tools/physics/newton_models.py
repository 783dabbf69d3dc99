"""Small models for the tests of SolverNewton."""

import numpy as np

import sim


def chain(compliance=1e-4, damping=0.0, points=5, motion=None, held=0.0, **more):
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    material = {"distance": {"compliance": compliance, "damping": damping, **more}}
    builder.add_chain((0, 0, 0), (1, 0, 0), points, 1.0, material=material)
    builder.add_attachment([0], motion=[motion] if motion else [], **({"compliance": held} if held else {}))
    return builder


def sheet(shape=None, compliance=0.0, cells=3, **held):
    """Cloth with damping and drag, held at two corners, or above a shape."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    group = builder.add_cloth_grid(
        dim_x=cells,
        dim_y=cells,
        cell_x=0.1,
        cell_y=0.1,
        density=0.3,
        vel=(0.2, 0, 0.4),
        material={"distance": {"compliance": 1e-4, "damping": 0.01}, "bend": {"compliance": 100.0}},
    )
    if shape == "plane":
        builder.add_ground_plane(height=-0.002, normal=(0, 1, 0.05), compliance=compliance, label="floor")
    elif shape == "sphere":
        builder.add_shape_sphere((0.11, 0.0, -0.04), 0.05, compliance=compliance, label="ball")
    else:
        builder.set_drag(group, 0.5)
        builder.add_attachment([0, 1], **held)
    return builder


def bar(material, **values):
    """A soft bar that a clamp pulls sideways."""
    builder = sim.ModelBuilder(gravity=(-9.81, 0, 0))
    group = builder.add_soft_grid(
        dim_x=1,
        dim_y=1,
        dim_z=2,
        cell_x=0.03,
        cell_y=0.03,
        cell_z=0.03,
        density=1070.0,
        material={material: {"young": 1e4, "poisson": 0.3, "damping": 2e-3, **values}},
    )
    builder.add_attachment(group.choose({"z": [None, 1e-9]}), motion=[{"move": (0, 0.02, 0), "end": 0.03}])
    return builder


ELASTIC = {"young": 1e4, "poisson": 0.3}
BRANCHES = [{"stiffness": 0.5, "time": 0.02}, {"stiffness": 0.3, "time": 0.1}, {"stiffness": 0.5, "yield": 1e-3}]


def block(material, element="tetrahedra", load=None, turned=False, held=0.0, floor=None, cells=(1, 1, 2)):
    """A soft block with a clamp that moves, and what a scene may add to it."""
    builder = sim.ModelBuilder(gravity=(-9.81, 0, 0))
    dim_x, dim_y, dim_z = cells
    size = {"dim_x": dim_x, "dim_y": dim_y, "dim_z": dim_z, "cell_x": 0.03, "cell_y": 0.03, "cell_z": 0.03}
    group = builder.add_soft_grid(**size, density=1070.0, element=element, material=material, label="block")
    place = {"offset": (0.001, 0.002, 0.0005), "turn": (0.1, 0.05, 0.2)} if turned else {}
    clamped = group.choose({"z": [None, 1e-9]})
    builder.add_attachment(clamped, motion=[{"move": (0, 0.02, 0), "end": 0.03}], compliance=held, **place)
    if load is not None:
        builder.add_load(group.choose({"z": [0.0599, None]}), 0.02, "weight", **load)
    if floor is not None:
        builder.add_ground_plane(height=-0.003, normal=(1, 0, 0.05), compliance=floor, label="floor")
    return builder


def flag(material, air=False, ball=None):
    """A sheet that is held at two corners in a wind, or that flies against a ball."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0), wind=(0.3, 0.1, 0.5) if air else (0, 0, 0), air_density=1.2)
    size = {"dim_x": 3, "dim_y": 3, "cell_x": 0.1, "cell_y": 0.1}
    group = builder.add_cloth_grid(**size, density=0.3, vel=(0.2, 0, 0.4), material=material, label="flag")
    if air:
        builder.set_air(group, 1.2, 0.05)
    if ball is None:
        builder.add_attachment([0, 1])
    else:
        builder.add_shape_sphere((0.11, 0.1, 0.062), 0.06, compliance=ball, label="ball")
    return builder


FEATURES = {
    "branches, arm, turned clamp, floor": lambda: block(
        {"deviatoric": {**ELASTIC, "damping": 2e-3, "branches": BRANCHES}, "cell_volume": {**ELASTIC, "damping": 1e-3}},
        load={"arm": (-0.015, 0, 0.002)}, turned=True, floor=0.0,
    ),
    "soft arm, soft clamp, soft floor": lambda: block(
        {"stvk": {**ELASTIC, "damping": 2e-3}},
        load={"arm": (-0.015, 0, 0.002), "compliance": 1e-4}, turned=True, held=1e-3, floor=1e-4,
    ),
    "springs with branches in the air": lambda: flag(
        {"distance": {"compliance": 1e-4, "damping": 0.01, "branches": BRANCHES}, "bend": {"compliance": 33.0}},
        air=True,
    ),
    "springs on a ball": lambda: flag(
        {"distance": {"compliance": 1e-4, "damping": 0.01}, "bend": {"compliance": 33.0}}, ball=1e-4
    ),
    "membrane and plate": lambda: flag(
        {"membrane_stvk": {"young": 1e5, "poisson": 0.3, "thickness": 1e-3, "damping": 0.01},
         "plate": {"stiffness": 0.01, "poisson": 0.3}}
    ),
    "fabric": lambda: flag(
        {"fabric": {"warp": 100.0, "weft": 50.0, "shear": 10.0, "poisson": 0.2, "damping": 0.01},
         "fabric_bend": {"warp": 0.01, "weft": 0.005, "twist": 0.003}}, air=True
    ),
    "viscoelastic": lambda: block(
        {"viscoelastic_shape": {**ELASTIC, "relaxing": 1.0, "time": 0.01}, "cell_volume": ELASTIC}
    ),
    "hexahedra": lambda: block({"neo_hookean": {**ELASTIC, "damping": 2e-3}}, "hexahedra"),
    "quadratic": lambda: block({"stvk": {**ELASTIC, "damping": 2e-3}}, "quadratic"),
}  # fmt: skip
"""What a scene can say, in few models."""


def gradient_errors(builder, steps, dt, run=None, **settings):
    """Of positions and velocities after some steps, weighted at random, by every material value along a random
    direction: path -> error of the gradient against differences of fourth order, relative.

    Where a contact or a slider lies between the four, shorter differences are taken."""
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver, rng = sim.SolverNewton(model, **settings), np.random.default_rng(7)
    of_q, of_v = rng.normal(size=(2, model.particle_count, 3))

    def end():
        return run(solver) if run is not None else sim.rollout(solver, model.state(), steps, dt).final

    with sim.Tape() as tape:
        final = end()
    tape.backward(grads={final.particle_q: of_q, final.particle_qd: 0.1 * of_v})
    errors = {}
    for path, a in model.materials.items():
        value, gradient = a.numpy().copy(), a.grad.numpy().copy()
        along = rng.normal(size=value.shape)
        size = np.abs(value).max()
        if path.endswith(("compliance", "damping", "mass", "density", "radius")):
            along = along * value
        if not np.abs(along).max():
            continue

        def loss(t, a=a, value=value, along=along):
            a.assign(value + t * along)
            state = end()
            return float((state.particle_q.numpy() * of_q + 0.1 * state.particle_qd.numpy() * of_v).sum())

        noise = 1e-9 * max(1.0, abs(loss(0.0)))  # of differences, where the value hardly matters
        for share in (3e-4, 3e-5, 3e-6):
            h = share * (size or 1.0) / np.abs(along).max()
            difference = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h)
            error = abs(float((gradient * along).sum()) - difference) / max(abs(difference), noise / 1e-7 * 1e-2)
            errors[path] = min(error, errors.get(path, error))
            if error < 1e-7:
                break
        a.assign(value)
    return errors
