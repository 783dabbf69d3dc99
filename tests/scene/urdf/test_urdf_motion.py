"""simopt import: a robot moves as the equations of motion of its URDF say, integrated by SciPy."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import sim
from sim.scene.urdf import import_urdf

ARM = """<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0.02 0.01 -0.2" rpy="0.3 -0.2 0.5"/>
      <mass value="1.5"/>
      <inertia ixx="0.03" iyy="0.04" izz="0.02" ixy="0.002" ixz="-0.001" iyz="0.003"/>
    </inertial>
  </link>
  <link name="lower">
    <inertial>
      <origin xyz="0.15 0 0.02" rpy="0 0.4 0"/>
      <mass value="0.8"/>
      <inertia ixx="0.004" iyy="0.01" izz="0.009" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/>
    <child link="upper"/>
    <origin xyz="0 0 1" rpy="0 0 0.4"/>
    <axis xyz="0 2 0"/>
    <limit lower="-2.5" upper="2.5" effort="80" velocity="3"/>
    <dynamics damping="0.3"/>
  </joint>
  <joint name="elbow" type="continuous">
    <parent link="upper"/>
    <child link="lower"/>
    <origin xyz="0.05 0 -0.4" rpy="0.2 0.1 -0.3"/>
    <axis xyz="1 1 0.2"/>
    <dynamics damping="0.05"/>
  </joint>
  <joint name="mount" type="fixed">
    <parent link="lower"/>
    <child link="tool"/>
    <origin xyz="0.3 0 0"/>
  </joint>
</robot>
"""
POSE = np.array([0.7, np.deg2rad(-50)])
ORIGINS = np.array([[0, 0, 1], [0.05, 0, -0.4]]), np.array([[0, 0, 0.4], [0.2, 0.1, -0.3]])
AXES = np.array([0.0, 1, 0]), np.array([1, 1, 0.2]) / np.sqrt(2.04)
COMS = np.array([[0.02, 0.01, -0.2], [0.15, 0, 0.02]])
TURNS = Rotation.from_euler("xyz", [[0.3, -0.2, 0.5], [0, 0.4, 0]])
INERTIA = np.array(
    [[[0.03, 0.002, -0.001], [0.002, 0.04, 0.003], [-0.001, 0.003, 0.02]], np.diag([0.004, 0.01, 0.009])]
)
MASS, DAMPING, G = np.array([1.5, 0.8]), np.array([0.3, 0.05]), 9.81


def frames(q):
    """Places, rotations and axes in the world of both links."""
    p, turn, out = np.zeros(3), Rotation.identity(), []
    for k in range(2):
        p = p + turn.apply(ORIGINS[0][k])
        turn = turn * Rotation.from_euler("xyz", ORIGINS[1][k])
        axis = turn.apply(AXES[k])
        turn = turn * Rotation.from_rotvec(q[k] * AXES[k])
        out.append((p, turn, axis))
    return out


def mass_matrix_and_weight(q):
    """M (2, 2), and the potential energy, from Jacobians of the centres of mass and of the angular velocities."""
    chain = frames(q)
    matrix, weight = np.zeros((2, 2)), 0.0
    for k, (p, turn, _) in enumerate(chain):
        com = p + turn.apply(COMS[k])
        weight += MASS[k] * G * com[2]
        linear, angular = np.zeros((3, 2)), np.zeros((3, 2))
        for j in range(k + 1):
            angular[:, j] = chain[j][2]
            linear[:, j] = np.cross(chain[j][2], com - chain[j][0])
        axes = (turn * TURNS[k]).as_matrix()
        matrix += MASS[k] * linear.T @ linear + angular.T @ axes @ INERTIA[k] @ axes.T @ angular
    return matrix, weight


def accelerations(q, v, damping):
    """Lagrange's equations: M a = d(T - V)/dq - dM/dt v - damping v."""
    step, by_q, slopes = 1e-5, [], []
    for k in range(2):
        (above, high), (below, low) = (mass_matrix_and_weight(q + s * step * np.eye(2)[k]) for s in (1, -1))
        by_q.append((above - below) / (2 * step))
        slopes.append((high - low) / (2 * step))
    forces = [0.5 * v @ by_q[k] @ v - slopes[k] for k in range(2)]
    moving = sum(by_q[k] * v[k] for k in range(2)) @ v
    return np.linalg.solve(mass_matrix_and_weight(q)[0], forces - moving - damping * v)


def tool(q):
    p, turn, _ = frames(q)[1]
    return p + turn.apply([0.3, 0, 0])


def motion(folder, damping):
    """Where the tool is by the equations (12, 3) [m], and by the program with three lengths of steps."""
    text = ARM
    for stated, wanted in zip(DAMPING, damping, strict=True):
        text = text.replace(f'damping="{stated}"', f'damping="{wanted}"')
    (folder / "arm.urdf").write_text(text)
    imported = import_urdf(folder / "arm.urdf", ["shoulder=0.7", "elbow=-50 deg"])
    (folder / "arm.yaml").write_text(imported.text)
    exact = solve_ivp(
        lambda t, y: [*y[2:], *accelerations(y[:2], y[2:], damping)], (0, 0.4), [*POSE, 0, 0], "DOP853",
        t_eval=np.arange(1, 13) / 30, rtol=1e-9, atol=1e-10,
    )  # fmt: skip
    found = []
    for substeps in (20, 40, 80):
        changed = {"time.substeps": substeps, "time.fps": 30, "time.duration": 0.4}
        problem = sim.load_scene(folder / "arm.yaml", changed).build(dtype=sim.float64)
        take = problem.simulate()["main"]
        at = int(problem.model.groups["lower"].start + 1)  # the sites of `lower`: its origin, and the tool
        np.testing.assert_allclose(take.start[at], tool(POSE), atol=1e-14)
        found.append(take.positions[:, at])
    return np.array([tool(q) for q in exact.y[:2].T]), found


def test_an_arm_moves_as_its_equations_say(tmp_path):
    expected, found = motion(tmp_path, DAMPING)
    errors = [np.abs(x - expected).max() for x in found]
    assert np.abs(expected - tool(POSE)).max() > 0.25
    assert errors[0] < 1e-3
    assert 1.8 < errors[0] / errors[1] < 2.2 and 1.9 < errors[1] / errors[2] < 2.1  # damping is of first order
    assert np.abs(2 * found[2] - found[1] - expected).max() < 1e-5  # both steps extrapolated to none


def test_without_damping_it_does_to_second_order(tmp_path):
    """Velocities begin half a step back."""
    expected, found = motion(tmp_path, np.zeros(2))
    errors = [np.abs(x - expected).max() for x in found]
    assert errors[0] < 2e-5
    assert 3.8 < errors[0] / errors[1] < 4.2 and 3.8 < errors[1] / errors[2] < 4.2
