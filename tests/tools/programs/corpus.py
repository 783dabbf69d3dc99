"""Small programs in the kernel language: control flow of every kind, local composites, functions.

A program is a function of two numbers and an integer.  Most are plain Python too, and Python itself is then the
reference; those that are not come with one in NumPy.  `open_loop` marks a program whose second reverse derivative goes
through a loop that is not unrolled and that recorded something: it has to be refused.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

import sim
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.core import Func
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import float64, int32

vec3, vec2, mat33, quat = sim.vec3d, sim.vec2d, sim.mat33d, sim.quatd
SAMPLES = [(n, x, y) for n in (-2, 0, 1, 2, 5, 9) for x, y in ((0.5, -1.25), (-0.7, 0.3), (1.1, 0.9))]


@dataclass(frozen=True, eq=False)
class Program:
    """`reference` is what it should compute; `samples` are arguments (n, x, y)."""

    function: Callable
    reference: Callable
    open_loop: bool = False
    samples: list[tuple] = field(default_factory=lambda: SAMPLES)

    @property
    def name(self) -> str:
        return self.function.__name__

    def traced(self) -> Func:
        return verify(trace_function(self.function, [int32, float64, float64], real=float64))


PROGRAMS: list[Program] = []


def program(reference: Callable | None = None, **more) -> Callable:
    def add(function: Callable) -> Callable:
        PROGRAMS.append(Program(function, reference or function, **more))
        return function

    return add


# ---- straight-line and branches
@program()
def polynomial(n, x, y):
    return 3.0 * x * x * y - x / (2.0 + y * y) + y


@program()
def nested_functions(n, x, y):
    return math.sin(x * math.exp(-y)) + math.sqrt(1.0 + x * x) * math.tanh(y) + math.log(2.0 + x * y * x * y)


@program()
def powers(n, x, y):
    return (1.0 + x * x) ** (0.5 * y) + x**3 + math.pow(2.0 + y, x)


@program()
def extrema(n, x, y):
    return min(x, y) * max(x * x, 0.5) + abs(x - y)


@program()
def ternaries(n, x, y):
    a = x if x > y else y * y
    return a * (y if n > 2 else x)


@program()
def if_elif_else(n, x, y):
    if x > 1.0:
        z = x * x
    elif x > y:
        z = x * y
    else:
        z = math.sin(y)
    return z * x


@program()
def early_returns(n, x, y):
    if n == 0:
        return x * x * y
    if x > y:
        x = x * y
        if n > 2:
            return x * x
    else:
        y = y * y
    return x * y


@program()
def chained_comparison(n, x, y):
    return x * x if -1.0 < y <= x < 3.0 else x * y


@program()
def logic(n, x, y):
    a = x > 0.0 and y > 0.0 or n > 3
    b = not (x > 0.0) and not a
    return (x * x if a else y) * (y * y if b else x)


@program(lambda n, x, y: (math.floor(x) + x * y) * round(3 * y) + (x - math.floor(x)) * y)
def rounding(n, x, y):
    return (sim.floor(x) + x * y) * sim.rint(3.0 * y) + (x - sim.floor(x)) * y


@program(lambda n, x, y: (math.sqrt(x) if x > 0 else 0.0) * y + x * y)
def guarded_root(n, x, y):
    return sim.where(x > 0.0, sim.sqrt(x), 0.0) * y + x * y


@program(lambda n, x, y: min(max(x, -0.6), 0.8) * y + (1.0 if y > 0 else -1.0) * x)
def clamped(n, x, y):
    return sim.clamp(x, -0.6, 0.8) * y + sim.sign(y) * x


# ---- local vectors, matrices, structs
@program(lambda n, x, y: 3 * x * x + (3 * x * x) * y)
def component_assigned_twice(n, x, y):
    v = vec2(x, y)
    v[0] = 3.0 * v[0] * v[0]
    v[1] = v[0] * v[1]
    return v[0] + v[1]


@program(lambda n, x, y: x * y + (y if x > 0 else x * x * y))
def component_in_a_branch(n, x, y):
    v = vec2(x, 1.0)
    if x > 0.0:
        v.x = 1.0
    else:
        v.x *= x
    return v.x * y + x * y


@program(lambda n, x, y: (lambda v: v[abs(n) % 3] * (v[0] + 2 * v[1]))([x, y, x * y]))
def component_by_number(n, x, y):
    v = vec3(x, y, x * y)
    return v[abs(n) % 3] * (v[0] + 2.0 * v[1])


def _shift_components(n, x, y):
    v = [x, y, x * y]
    for k in range(n):
        v[k % 3] = v[k % 3] * v[(k + 1) % 3] + 0.5
        v[1] += x
    return v[0] + v[1] * v[2]


@program(_shift_components, open_loop=True)
def components_in_a_loop(n, x, y):
    v = vec3(x, y, x * y)
    for k in range(n):
        v[k % 3] = v[k % 3] * v[(k + 1) % 3] + 0.5
        v[1] += x
    return v[0] + v[1] * v[2]


def _cross(n, x, y):
    a, b = np.array([x, y, 1.0]), np.array([y * y, x, 2.0])
    c = np.cross(a, b)
    return np.dot(c, a + b) + np.linalg.norm(c) + (c / np.linalg.norm(c))[1]


@program(_cross)
def vector_functions(n, x, y):
    a = vec3(x, y, 1.0)
    b = vec3(y * y, x, 2.0)
    c = sim.cross(a, b)
    return sim.dot(c, a + b) + sim.length(c) + sim.normalize(c).y


def _inverse(n, x, y):
    m = np.array([[2.0 + x * x, y, 0.1], [x, 3.0, x * y], [0.2, y, 2.5]])
    return (np.linalg.inv(m) @ np.array([x, 1.0, y])).sum() + np.linalg.det(m)


@program(_inverse)
def matrix_inverse(n, x, y):
    m = mat33(2.0 + x * x, y, 0.1, x, 3.0, x * y, 0.2, y, 2.5)
    v = sim.inverse(m) @ vec3(x, 1.0, y)
    return v.x + v.y + v.z + sim.determinant(m)


def _matrix_power(n, x, y):
    m, p = np.array([[x, y], [-y, 0.5]]), np.eye(2)
    for _ in range(n):
        p = p @ m * 0.8
        p[0, 1] += x
    return p[0, 0] * y + p[1, 1] + p[0, 1]


@program(_matrix_power, open_loop=True)
def matrix_power(n, x, y):
    m = sim.mat22d(x, y, -y, 0.5)
    p = sim.mat22d(1.0, 0.0, 0.0, 1.0)
    for _ in range(n):
        p = p @ m * 0.8
        p[0, 1] += x
    return p[0, 0] * y + p[1, 1] + p[0, 1]


def _rotate(n, x, y):
    axis = np.array([0.6, 0.0, 0.8])
    v, angle = np.array([1.0, y, x]), x * y
    c, s = np.cos(angle), np.sin(angle)
    r = v * c + np.cross(axis, v) * s + axis * np.dot(axis, v) * (1 - c)
    return r[0] + 2 * r[1] * x - r[2]


@program(_rotate)
def rotation(n, x, y):
    q = sim.quat_from_axis_angle(vec3(0.6, 0.0, 0.8), x * y)
    r = sim.quat_rotate(q, vec3(1.0, y, x))
    return r.x + 2.0 * r.y * x - r.z


@sim.struct
class Body:
    mass: float64
    place: vec3


@program(lambda n, x, y: (lambda m, p: m * p[0] * p[0] + p[1] * p[2])(x * x + 1, [x * 2, y + x * x + 1, x * y]))
def local_struct(n, x, y):
    body = Body()
    body.mass = x * x + 1.0
    body.place = vec3(x, y, x * y)
    body.place.x *= 2.0
    body.place[1] += body.mass
    return body.mass * body.place.x * body.place.x + body.place.y * body.place.z


def _struct_loop(n, x, y):
    mass, place = x, [x, y, 1.0]
    for _ in range(n):
        mass = mass * 0.9 + place[1] * 0.1
        place = [place[0] + mass * place[1], place[1], place[2] * y]
    return mass * place[0] + place[2]


@program(_struct_loop, open_loop=True)
def struct_through_a_loop(n, x, y):
    body = Body(mass=x, place=vec3(x, y, 1.0))
    for _ in range(n):
        body.mass = body.mass * 0.9 + body.place.y * 0.1
        body.place.x += body.mass * body.place.y
        body.place.z *= y
    return body.mass * body.place.x + body.place.z


# ---- functions
@func
def sum_and_product(a, b):
    return a + b, a * b


@func
def repeated(f, x, n):
    for _ in range(n):
        x = f(x)
    return x


@func
def damped_sine(x):
    return sim.sin(x) * 0.7 + 0.2


@func
def ladder(x, k):
    if k == 0:
        return x
    return x * ladder(x + 0.5, k - 1)


@func
def cube(x):
    return x * x * x


@cube.vjp
def cube_vjp(x, result, ct):
    return 3.0 * x * x * ct


@program(lambda n, x, y: (x + y) * (x * y) ** 2)
def several_results(n, x, y):
    s, p = sum_and_product(x, y)
    _, q = sum_and_product(p, s * p)
    return q


def _repeat(n, x, y):
    for _ in range(n):
        x = math.sin(x) * 0.7 + 0.2
    return x * y


@program(_repeat, open_loop=True)
def loop_in_a_function(n, x, y):
    return repeated(damped_sine, x, n) * y


@program(lambda n, x, y: x * (x + 0.5) * (x + 1) * (x + 1.5) * y)
def static_recursion(n, x, y):
    return ladder(x, 3) * y


@program(lambda n, x, y: (x * y) ** 3 * x + (x + y) ** 3)
def closed_form(n, x, y):
    return cube(x * y) * x + cube(x + y)


def _cubes(n, x, y):
    for _ in range(n):
        x = (x * y) ** 3 * 0.2 + 0.4
    return x


@program(_cubes, open_loop=True)
def closed_form_in_a_loop(n, x, y):
    for _ in range(n):
        x = cube(x * y) * 0.2 + 0.4
    return x


@program(lambda n, x, y: np.linalg.norm([x, y, 0.5]) ** 3 * x)
def closed_form_of_the_library(n, x, y):
    r = sim.length(vec3(x, y, 0.5))
    return r * r * r * x


@cache
def order(program: Program, number: int) -> Func:
    """The program (0), its vjp (1), the vjp of that (2).  Parameters: n, x, y, cotangent, cotangents of both
    gradients."""
    return program.traced() if number == 0 else vjp(order(program, number - 1))
