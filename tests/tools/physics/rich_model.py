"""A model with every kind of material value."""

import numpy as np

from sim.model import ModelBuilder


def rich_builder() -> ModelBuilder:
    """A model with every kind of material value."""
    builder = ModelBuilder()
    material = {
        "distance": {"compliance": np.linspace(0.1, 0.5, 24), "damping": 2e-3},
        "shear": {"compliance": 0.3},
        "bend": {"compliance": 20.0},
    }
    sheet = builder.add_cloth_grid(
        (0.1, 0.2, 0.3),
        dim_x=3,
        dim_y=3,
        cell_x=0.1,
        cell_y=0.2,
        density=0.4,
        vel=(1, 2, 3),
        spin=(0.5, -1, 2),
        fix_left=True,
        material=material,
        label="sheet",
        thickness=0.02,
    )
    builder.add_chain(
        (1, 0, 0),
        (2, 0.5, 0),
        5,
        mass=0.7,
        label="rope",
        spin=(0, 0, 3),
        vel=(0, 1, 0),
        material={"distance": {"compliance": 1e-3}},
    )
    builder.add_particle((5, 5, 5), vel=(1, 0, 0), mass=0.5)
    builder.add_particle((6, 5, 5), vel=(0, 1, 0), mass=1.5)
    builder.add_spring(21, 22, compliance=0.1, damping=0.2)
    builder.add_attachment(
        [16, 17],
        motion=[{"move": (0, 1, 0), "end": 2.0}, {"swing": (1, 0, 0), "frequency": 3.0}],
        compliance=0.05,
        label="soft",
    )
    builder.add_attachment([20], motion={"move": (0, 0, 1), "start": 1, "end": 2.0, "ease": "linear"}, label="hard")
    builder.add_ground_plane(-1.0, normal=(0.1, 2.0, 0.2), compliance=1e-4, touches=[sheet])
    builder.add_shape_sphere((0, 0, 1), 0.3, label="ball")
    return builder
