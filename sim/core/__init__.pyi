"""The names of `sim.core`, for type checkers and editors."""

# written by scripts/make_docs.py

import builtins as _builtins
from collections.abc import Iterator as _Iterator
from typing import Any as _Any
from typing import Generic as _Generic
from typing import TypeAlias as _TypeAlias
from typing import TypeVar as _TypeVar

from typing_extensions import Self as _Self

_Class = _TypeVar("_Class")

def struct(cls: type[_Class], /) -> type[_Class]:
    """`@struct class Particle: x: sim.vec3; mass: float`: a struct type from the annotations of a class."""

__version__: _builtins.str

def _missing(module: _builtins.str, name: _builtins.str, known: _Any) -> Exception: ...

from builtins import float as float
from builtins import int as int
from sim.core import config as config
from sim.core import optim as optim
from sim.core.backends.cache import clear_kernel_cache as clear_kernel_cache
from sim.core.config import LOG_DEBUG as LOG_DEBUG
from sim.core.config import LOG_ERROR as LOG_ERROR
from sim.core.config import LOG_INFO as LOG_INFO
from sim.core.config import LOG_WARNING as LOG_WARNING
from sim.core.config import DeterministicMode as DeterministicMode
from sim.core.config import LaunchArrayAccessMode as LaunchArrayAccessMode
from sim.core.lang import constants as constants
from sim.core.lang import types as types
from sim.core.lang.constants import HALF_PI as HALF_PI
from sim.core.lang.constants import INF as INF
from sim.core.lang.constants import LN2 as LN2
from sim.core.lang.constants import LN10 as LN10
from sim.core.lang.constants import LOG2E as LOG2E
from sim.core.lang.constants import LOG10E as LOG10E
from sim.core.lang.constants import NAN as NAN
from sim.core.lang.constants import PHI as PHI
from sim.core.lang.constants import PI as PI
from sim.core.lang.constants import TAU as TAU
from sim.core.lang.constants import E as E
from sim.core.lang.constants import constant as constant
from sim.core.lang.constants import e as e
from sim.core.lang.constants import half_pi as half_pi
from sim.core.lang.constants import inf as inf
from sim.core.lang.constants import ln2 as ln2
from sim.core.lang.constants import ln10 as ln10
from sim.core.lang.constants import log2e as log2e
from sim.core.lang.constants import log10e as log10e
from sim.core.lang.constants import nan as nan
from sim.core.lang.constants import phi as phi
from sim.core.lang.constants import pi as pi
from sim.core.lang.constants import tau as tau
from sim.core.lang.errors import GradientError as GradientError
from sim.core.lang.errors import KernelError as KernelError
from sim.core.lang.errors import NotSupportedError as NotSupportedError
from sim.core.lang.errors import SimError as SimError
from sim.core.lang.frontend.custom import adjoint as adjoint
from sim.core.lang.frontend.custom import func_grad as func_grad
from sim.core.lang.frontend.custom import func_replay as func_replay
from sim.core.lang.frontend.function import Function as Function
from sim.core.lang.frontend.function import func as func
from sim.core.lang.frontend.native import func_native as func_native
from sim.core.lang.references import ref as ref
from sim.core.lang.types import Scalar as Scalar
from sim.core.lang.types import Float as Float
from sim.core.lang.types import Int as Int
from sim.core.lang.types import bfloat16 as bfloat16
from sim.core.lang.types import transform_expand as transform_expand
from sim.core.lang.warp_errors import WarpCodegenAttributeError as WarpCodegenAttributeError
from sim.core.lang.warp_errors import WarpCodegenError as WarpCodegenError
from sim.core.lang.warp_errors import WarpCodegenIndexError as WarpCodegenIndexError
from sim.core.lang.warp_errors import WarpCodegenKeyError as WarpCodegenKeyError
from sim.core.lang.warp_errors import WarpCodegenTypeError as WarpCodegenTypeError
from sim.core.lang.warp_errors import WarpCodegenValueError as WarpCodegenValueError
from sim.core.lang.warp_errors import WarpDeterminismError as WarpDeterminismError
from sim.core.runtime.ambient.loggers import Logger as Logger
from sim.core.runtime.ambient.loggers import ScopedLogger as ScopedLogger
from sim.core.runtime.ambient.loggers import ScopedLogLevel as ScopedLogLevel
from sim.core.runtime.ambient.loggers import get_logger as get_logger
from sim.core.runtime.ambient.loggers import set_logger as set_logger
from sim.core.runtime.ambient.profile import Profile as Profile
from sim.core.runtime.ambient.profile import profile as profile
from sim.core.runtime.ambient.threads import get_num_threads as get_num_threads
from sim.core.runtime.ambient.threads import set_num_threads as set_num_threads
from sim.core.runtime.arrays.array import array as array
from sim.core.runtime.arrays.array import clone as clone
from sim.core.runtime.arrays.array import indexedarray as indexedarray
from sim.core.runtime.arrays.creation import copy as copy
from sim.core.runtime.arrays.creation import dtype_from_numpy as dtype_from_numpy
from sim.core.runtime.arrays.creation import dtype_to_numpy as dtype_to_numpy
from sim.core.runtime.arrays.creation import empty as empty
from sim.core.runtime.arrays.creation import empty_like as empty_like
from sim.core.runtime.arrays.creation import from_dlpack as from_dlpack
from sim.core.runtime.arrays.creation import from_numpy as from_numpy
from sim.core.runtime.arrays.creation import full as full
from sim.core.runtime.arrays.creation import full_like as full_like
from sim.core.runtime.arrays.creation import ones as ones
from sim.core.runtime.arrays.creation import ones_like as ones_like
from sim.core.runtime.arrays.creation import to_dlpack as to_dlpack
from sim.core.runtime.arrays.creation import zeros as zeros
from sim.core.runtime.arrays.creation import zeros_like as zeros_like
from sim.core.runtime.arrays.dimensions import fixedarray as fixedarray
from sim.core.runtime.arrays.dimensions import indexedarray1d as indexedarray1d
from sim.core.runtime.arrays.dimensions import indexedarray2d as indexedarray2d
from sim.core.runtime.arrays.dimensions import indexedarray3d as indexedarray3d
from sim.core.runtime.arrays.dimensions import indexedarray4d as indexedarray4d
from sim.core.runtime.compiled.argument_packing import LaunchError as LaunchError
from sim.core.runtime.derivatives import autograd as autograd
from sim.core.runtime.devices.captures import CaptureError as CaptureError
from sim.core.runtime.devices.captures import CaptureMode as CaptureMode
from sim.core.runtime.devices.captures import ScopedCapture as ScopedCapture
from sim.core.runtime.devices.captures import capture_begin as capture_begin
from sim.core.runtime.devices.captures import capture_end as capture_end
from sim.core.runtime.devices.captures import capture_launch as capture_launch
from sim.core.runtime.devices.captures import is_capturing as is_capturing
from sim.core.runtime.devices.device import Device as Device
from sim.core.runtime.devices.device import DeviceError as DeviceError
from sim.core.runtime.devices.device import DeviceLike as DeviceLike
from sim.core.runtime.devices.device import ScopedDevice as ScopedDevice
from sim.core.runtime.devices.device import get_device as get_device
from sim.core.runtime.devices.device import get_devices as get_devices
from sim.core.runtime.devices.device import init as init
from sim.core.runtime.devices.device import set_device as set_device
from sim.core.runtime.devices.device import synchronize as synchronize
from sim.core.runtime.devices.diagnostics import get_suggested_block_size as get_suggested_block_size
from sim.core.runtime.devices.diagnostics import print_diagnostics as print_diagnostics
from sim.core.runtime.devices.graph import Graph as Graph
from sim.core.runtime.devices.graph import capture as capture
from sim.core.runtime.devices.queries import ScopedMempool as ScopedMempool
from sim.core.runtime.devices.queries import ScopedMempoolAccess as ScopedMempoolAccess
from sim.core.runtime.devices.queries import ScopedPeerAccess as ScopedPeerAccess
from sim.core.runtime.devices.queries import get_cuda_device as get_cuda_device
from sim.core.runtime.devices.queries import get_cuda_device_count as get_cuda_device_count
from sim.core.runtime.devices.queries import get_cuda_devices as get_cuda_devices
from sim.core.runtime.devices.queries import get_cuda_driver_version as get_cuda_driver_version
from sim.core.runtime.devices.queries import get_cuda_supported_archs as get_cuda_supported_archs
from sim.core.runtime.devices.queries import get_cuda_toolkit_version as get_cuda_toolkit_version
from sim.core.runtime.devices.queries import get_preferred_device as get_preferred_device
from sim.core.runtime.devices.queries import is_conditional_graph_supported as is_conditional_graph_supported
from sim.core.runtime.devices.queries import is_cpu_available as is_cpu_available
from sim.core.runtime.devices.queries import is_cuda_available as is_cuda_available
from sim.core.runtime.devices.queries import is_device_available as is_device_available
from sim.core.runtime.devices.queries import is_mempool_access_enabled as is_mempool_access_enabled
from sim.core.runtime.devices.queries import is_mempool_access_supported as is_mempool_access_supported
from sim.core.runtime.devices.queries import is_mempool_enabled as is_mempool_enabled
from sim.core.runtime.devices.queries import is_mempool_supported as is_mempool_supported
from sim.core.runtime.devices.queries import is_peer_access_enabled as is_peer_access_enabled
from sim.core.runtime.devices.queries import is_peer_access_supported as is_peer_access_supported
from sim.core.runtime.devices.queries import set_mempool_access_enabled as set_mempool_access_enabled
from sim.core.runtime.devices.queries import set_mempool_enabled as set_mempool_enabled
from sim.core.runtime.devices.queries import set_peer_access_enabled as set_peer_access_enabled
from sim.core.runtime.devices.streams import Event as Event
from sim.core.runtime.devices.streams import ScopedStream as ScopedStream
from sim.core.runtime.devices.streams import Stream as Stream
from sim.core.runtime.devices.streams import get_event_elapsed_time as get_event_elapsed_time
from sim.core.runtime.devices.streams import get_stream as get_stream
from sim.core.runtime.devices.streams import record_event as record_event
from sim.core.runtime.devices.streams import set_stream as set_stream
from sim.core.runtime.devices.streams import synchronize_device as synchronize_device
from sim.core.runtime.devices.streams import synchronize_event as synchronize_event
from sim.core.runtime.devices.streams import synchronize_stream as synchronize_stream
from sim.core.runtime.devices.streams import wait_event as wait_event
from sim.core.runtime.devices.streams import wait_stream as wait_stream
from sim.core.runtime.devices.timing import TIMING_ALL as TIMING_ALL
from sim.core.runtime.devices.timing import TIMING_GRAPH as TIMING_GRAPH
from sim.core.runtime.devices.timing import TIMING_KERNEL as TIMING_KERNEL
from sim.core.runtime.devices.timing import TIMING_KERNEL_BUILTIN as TIMING_KERNEL_BUILTIN
from sim.core.runtime.devices.timing import TIMING_MEMCPY as TIMING_MEMCPY
from sim.core.runtime.devices.timing import TIMING_MEMSET as TIMING_MEMSET
from sim.core.runtime.devices.timing import ScopedTimer as ScopedTimer
from sim.core.runtime.devices.timing import TimingResult as TimingResult
from sim.core.runtime.devices.timing import timing_begin as timing_begin
from sim.core.runtime.devices.timing import timing_end as timing_end
from sim.core.runtime.devices.timing import timing_print as timing_print
from sim.core.runtime.interop import utils as utils
from sim.core.runtime.interop.conversions import device_from_jax as device_from_jax
from sim.core.runtime.interop.conversions import device_from_torch as device_from_torch
from sim.core.runtime.interop.conversions import device_to_jax as device_to_jax
from sim.core.runtime.interop.conversions import device_to_torch as device_to_torch
from sim.core.runtime.interop.conversions import dtype_from_jax as dtype_from_jax
from sim.core.runtime.interop.conversions import dtype_from_torch as dtype_from_torch
from sim.core.runtime.interop.conversions import dtype_to_jax as dtype_to_jax
from sim.core.runtime.interop.conversions import dtype_to_torch as dtype_to_torch
from sim.core.runtime.interop.frameworks import from_jax as from_jax
from sim.core.runtime.interop.frameworks import from_torch as from_torch
from sim.core.runtime.interop.frameworks import to_jax as to_jax
from sim.core.runtime.interop.frameworks import to_torch as to_torch
from sim.core.runtime.interop.frameworks import torch_function as torch_function
from sim.core.runtime.launch import host as host
from sim.core.runtime.launch.calls import set_check_bounds as set_check_bounds
from sim.core.runtime.launch.conditionals import capture_if as capture_if
from sim.core.runtime.launch.conditionals import capture_while as capture_while
from sim.core.runtime.launch.faults import KernelFault as KernelFault
from sim.core.runtime.launch.kernel import Kernel as Kernel
from sim.core.runtime.launch.kernel import kernel as kernel
from sim.core.runtime.launch.launch import Launch as Launch
from sim.core.runtime.launch.launch import launch as launch
from sim.core.runtime.launch.mapping import map as map
from sim.core.runtime.launch.module import Module as Module
from sim.core.runtime.launch.module import force_load as force_load
from sim.core.runtime.launch.module import get_module as get_module
from sim.core.runtime.launch.module import get_module_options as get_module_options
from sim.core.runtime.launch.module import load_module as load_module
from sim.core.runtime.launch.module import set_module_options as set_module_options
from sim.core.runtime.launch.overloads import overload as overload
from sim.core.runtime.tape.tape import Tape as Tape
from sim.core.spatial.bvh import Bvh as Bvh
from sim.core.spatial.bvh import BvhConstructor as BvhConstructor
from sim.core.spatial.bvh import is_cubql_available as is_cubql_available
from sim.core.spatial.hash_grid import HashGrid as HashGrid
from sim.core.spatial.marching_cubes import MarchingCubes as MarchingCubes
from sim.core.spatial.meshes.mesh import Mesh as Mesh
from sim.core.runtime.arrays.array import Element as _Element


class _Composite:
    """Vectors, matrices, quaternions and transforms, on the host and in kernels."""

    def __init__(self, *values: _Any, **named: _Any) -> None: ...
    def __getitem__(self, index: _Any, /) -> _Any: ...
    def __setitem__(self, index: _Any, value: _Any, /) -> None: ...
    def __len__(self) -> _builtins.int: ...
    def __iter__(self) -> _Iterator[_Any]: ...
    def __add__(self, other: _Any, /) -> _Self: ...
    def __radd__(self, other: _Any, /) -> _Self: ...
    def __sub__(self, other: _Any, /) -> _Self: ...
    def __rsub__(self, other: _Any, /) -> _Self: ...
    def __mul__(self, other: _Any, /) -> _Any: ...
    def __rmul__(self, other: _Any, /) -> _Any: ...
    def __matmul__(self, other: _Any, /) -> _Any: ...
    def __rmatmul__(self, other: _Any, /) -> _Any: ...
    def __truediv__(self, other: _Any, /) -> _Self: ...
    def __rtruediv__(self, other: _Any, /) -> _Self: ...
    def __neg__(self) -> _Self: ...
    def __pos__(self) -> _Self: ...


class array1d(array[_Element], _Generic[_Element]):
    """`array` of 1 dimension."""


class array2d(array[_Element], _Generic[_Element]):
    """`array` of 2 dimensions."""


class array3d(array[_Element], _Generic[_Element]):
    """`array` of 3 dimensions."""


class array4d(array[_Element], _Generic[_Element]):
    """`array` of 4 dimensions."""

bool: _TypeAlias = _builtins.bool
float16: _TypeAlias = _builtins.float
float32: _TypeAlias = _builtins.float
float64: _TypeAlias = _builtins.float
int8: _TypeAlias = _builtins.int
int16: _TypeAlias = _builtins.int
int32: _TypeAlias = _builtins.int
int64: _TypeAlias = _builtins.int

class mat22(_Composite):
    ...


class mat22d(_Composite):
    ...


class mat22f(_Composite):
    ...


class mat22h(_Composite):
    ...


class mat33(_Composite):
    ...


class mat33d(_Composite):
    ...


class mat33f(_Composite):
    ...


class mat33h(_Composite):
    ...


class mat44(_Composite):
    ...


class mat44d(_Composite):
    ...


class mat44f(_Composite):
    ...


class mat44h(_Composite):
    ...


class quat(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float
    w: _builtins.float


class quatd(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float
    w: _builtins.float


class quatf(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float
    w: _builtins.float


class quath(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float
    w: _builtins.float


class spatial_matrix(_Composite):
    ...


class spatial_matrixd(_Composite):
    ...


class spatial_matrixf(_Composite):
    ...


class spatial_matrixh(_Composite):
    ...


class spatial_vector(_Composite):
    ...


class spatial_vectord(_Composite):
    ...


class spatial_vectorf(_Composite):
    ...


class spatial_vectorh(_Composite):
    ...


class transform(_Composite):
    p: _Any
    q: _Any


class transformd(_Composite):
    p: _Any
    q: _Any


class transformf(_Composite):
    p: _Any
    q: _Any


class transformh(_Composite):
    p: _Any
    q: _Any

uint8: _TypeAlias = _builtins.int
uint16: _TypeAlias = _builtins.int
uint32: _TypeAlias = _builtins.int
handle: _TypeAlias = _builtins.int
uint64: _TypeAlias = _builtins.int

class vec2(_Composite):
    x: _builtins.float
    y: _builtins.float


class vec2b(_Composite):
    x: _builtins.int
    y: _builtins.int


class vec2d(_Composite):
    x: _builtins.float
    y: _builtins.float


class vec2f(_Composite):
    x: _builtins.float
    y: _builtins.float


class vec2h(_Composite):
    x: _builtins.float
    y: _builtins.float


class vec2i(_Composite):
    x: _builtins.int
    y: _builtins.int


class vec2l(_Composite):
    x: _builtins.int
    y: _builtins.int


class vec2s(_Composite):
    x: _builtins.int
    y: _builtins.int


class vec2ub(_Composite):
    x: _builtins.int
    y: _builtins.int


class vec2ui(_Composite):
    x: _builtins.int
    y: _builtins.int


class vec2ul(_Composite):
    x: _builtins.int
    y: _builtins.int


class vec2us(_Composite):
    x: _builtins.int
    y: _builtins.int


class vec3(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float


class vec3b(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int


class vec3d(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float


class vec3f(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float


class vec3h(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float


class vec3i(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int


class vec3l(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int


class vec3s(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int


class vec3ub(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int


class vec3ui(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int


class vec3ul(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int


class vec3us(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int


class vec4(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float
    w: _builtins.float


class vec4b(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int
    w: _builtins.int


class vec4d(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float
    w: _builtins.float


class vec4f(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float
    w: _builtins.float


class vec4h(_Composite):
    x: _builtins.float
    y: _builtins.float
    z: _builtins.float
    w: _builtins.float


class vec4i(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int
    w: _builtins.int


class vec4l(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int
    w: _builtins.int


class vec4s(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int
    w: _builtins.int


class vec4ub(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int
    w: _builtins.int


class vec4ui(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int
    w: _builtins.int


class vec4ul(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int
    w: _builtins.int


class vec4us(_Composite):
    x: _builtins.int
    y: _builtins.int
    z: _builtins.int
    w: _builtins.int

BvhQuery: _TypeAlias = _Any
HashGridQuery: _TypeAlias = _Any
MeshQueryPoint: _TypeAlias = _Any
MeshQueryRay: _TypeAlias = _Any
MeshQuery: _TypeAlias = _Any
MeshQueryAABB: _TypeAlias = _Any

def grad(*values: _Any, **named: _Any) -> _Any:
    """grad(f)(x, y, ...): the derivatives of f(x, y, ...), a function with one floating result, by its arguments."""

def abs(*values: _Any, **named: _Any) -> _Any:
    """|a|; derivative 0 at 0"""

def add(*values: _Any, **named: _Any) -> _Any:
    """a + b"""

def atan(*values: _Any, **named: _Any) -> _Any:
    """arc tangent"""

def atan2(*values: _Any, **named: _Any) -> _Any:
    """angle of the point (b, a): atan2(y, x); derivative 0 at the origin"""

def atomic_add(*values: _Any, **named: _Any) -> _Any:
    """array[i] += value without races; gives the old value."""

def atomic_and(*values: _Any, **named: _Any) -> _Any:
    """array[i] &= value without races; gives the old value."""

def atomic_cas(*values: _Any, **named: _Any) -> _Any:
    """atomic_cas(array, i, compare, value): array[i] = value if array[i] == compare, without races; gives the old value. Of vectors and matrices, each component by itself."""

def atomic_exch(*values: _Any, **named: _Any) -> _Any:
    """array[i] = value without races; gives the old value."""

def atomic_max(*values: _Any, **named: _Any) -> _Any:
    """array[i] = max(array[i], value) without races; gives the old value."""

def atomic_min(*values: _Any, **named: _Any) -> _Any:
    """array[i] = min(array[i], value) without races; gives the old value."""

def atomic_or(*values: _Any, **named: _Any) -> _Any:
    """array[i] |= value without races; gives the old value."""

def atomic_sub(*values: _Any, **named: _Any) -> _Any:
    """array[i] -= value without races; gives the old value."""

def atomic_xor(*values: _Any, **named: _Any) -> _Any:
    """array[i] ^= value without races; gives the old value."""

def bit_and(*values: _Any, **named: _Any) -> _Any:
    """a & b"""

def bit_or(*values: _Any, **named: _Any) -> _Any:
    """a | b"""

def bit_xor(*values: _Any, **named: _Any) -> _Any:
    """a ^ b"""

def cbrt(*values: _Any, **named: _Any) -> _Any:
    """cube root"""

def ceil(*values: _Any, **named: _Any) -> _Any:
    """smallest integer not below a"""

def copysign(*values: _Any, **named: _Any) -> _Any:
    """magnitude of a with the sign of b"""

def cos(*values: _Any, **named: _Any) -> _Any:
    """cosine"""

def cosh(*values: _Any, **named: _Any) -> _Any:
    """hyperbolic cosine"""

def div(*values: _Any, **named: _Any) -> _Any:
    """a / b"""

def div_approx(*values: _Any, **named: _Any) -> _Any:
    """a / b"""

def erf(*values: _Any, **named: _Any) -> _Any:
    """error function, 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to a"""

def erfc(*values: _Any, **named: _Any) -> _Any:
    """1 - erf(a), without cancellation"""

def exp(*values: _Any, **named: _Any) -> _Any:
    """e^a"""

def expect_eq(*values: _Any, **named: _Any) -> _Any:
    """expect_eq(a, b): prints an error, and goes on, where a is not b."""

def expect_near(*values: _Any, **named: _Any) -> _Any:
    """expect_near(a, b, tolerance=1e-6): prints an error, and goes on, where components are further apart."""

def expect_neq(*values: _Any, **named: _Any) -> _Any:
    """expect_neq(a, b): prints an error, and goes on, where a is b."""

def floor(*values: _Any, **named: _Any) -> _Any:
    """largest integer not above a"""

def floordiv(*values: _Any, **named: _Any) -> _Any:
    """a // b"""

def invert(*values: _Any, **named: _Any) -> _Any:
    """~a: every bit flipped."""

def len(*values: _Any, **named: _Any) -> _Any:
    """Length of a vector or tuple (a constant), rows of a matrix, first dimension of an array."""

def log(*values: _Any, **named: _Any) -> _Any:
    """natural logarithm"""

def log2(*values: _Any, **named: _Any) -> _Any:
    """logarithm to base 2"""

def log10(*values: _Any, **named: _Any) -> _Any:
    """logarithm to base 10"""

def lshift(*values: _Any, **named: _Any) -> _Any:
    """a << b"""

def max(*values: _Any, **named: _Any) -> _Any:
    """The maximum of several values (vectors: component by component), or of the components of one vector. Of two equal values the second has the derivative, of several or of components the first."""

def min(*values: _Any, **named: _Any) -> _Any:
    """The minimum of several values (vectors: component by component), or of the components of one vector. Of two equal values the second has the derivative, of several or of components the first."""

def mod(*values: _Any, **named: _Any) -> _Any:
    """a % b"""

def mul(*values: _Any, **named: _Any) -> _Any:
    """a * b"""

def neg(*values: _Any, **named: _Any) -> _Any:
    """-a."""

def pos(*values: _Any, **named: _Any) -> _Any:
    """+a."""

def pow(*values: _Any, **named: _Any) -> _Any:
    """a ** b: small constant whole exponents multiply."""

def print(*values: _Any, **named: _Any) -> _Any:
    """print(x) shows a value of the run as Warp does (floats with six digits); print(a, "text", b) several in a line, with all digits."""

def printf(*values: _Any, **named: _Any) -> _Any:
    """printf("x = %f\\n", x): output with the formats of C."""

def range(*values: _Any, **named: _Any) -> _Any:
    """range(stop), range(start, stop), range(start, stop, step): as in Python."""

def rint(*values: _Any, **named: _Any) -> _Any:
    """to the nearest, halves to even"""

def rshift(*values: _Any, **named: _Any) -> _Any:
    """a >> b"""

def sin(*values: _Any, **named: _Any) -> _Any:
    """sine"""

def sinh(*values: _Any, **named: _Any) -> _Any:
    """hyperbolic sine"""

def sqrt(*values: _Any, **named: _Any) -> _Any:
    """square root"""

def static(*values: _Any, **named: _Any) -> _Any:
    """static(expression): evaluated by Python where the function is defined, once; with constants of the kernel in it while compiling."""

def stop_gradient(*values: _Any, **named: _Any) -> _Any:
    """a, taken for a constant by derivatives"""

def sub(*values: _Any, **named: _Any) -> _Any:
    """a - b"""

def tan(*values: _Any, **named: _Any) -> _Any:
    """tangent"""

def tanh(*values: _Any, **named: _Any) -> _Any:
    """hyperbolic tangent"""

def tid(*values: _Any, **named: _Any) -> _Any:
    """`i = tid()`: the index of the thread, in a launch of several dimensions the first; `i, j = tid()`: its indices in a launch of 2 (up to 4) dimensions."""

def trunc(*values: _Any, **named: _Any) -> _Any:
    """towards zero"""

def unot(*values: _Any, **named: _Any) -> _Any:
    """not a."""

def where(*values: _Any, **named: _Any) -> _Any:
    """where(cond, a, b): a if cond else b. Only the chosen one is evaluated, so the other may be infinite or out of range."""

def cast(*values: _Any, **named: _Any) -> _Any:
    """cast(x, dtype): the bytes of a number, vector or struct as a value of another type that is not larger; no conversion of numbers, and no gradient goes through it."""

def identity(*values: _Any, **named: _Any) -> _Any:
    """identity(n, dtype=float): the n x n unit matrix."""

def matrix(*values: _Any, **named: _Any) -> _Any:
    """matrix(numbers row by row, shape=(2, 3), dtype=float): a matrix value, of zeros without numbers; matrix((2, 3), float) is its type."""

def quat_identity(*values: _Any, **named: _Any) -> _Any:
    """quat_identity(dtype=float): the quaternion (0, 0, 0, 1)."""

def quaternion(*values: _Any, **named: _Any) -> _Any:
    """quaternion(x, y, z, w) or quaternion(v, w); without numbers zero; quaternion(float) is its type."""

def transformation(*values: _Any, **named: _Any) -> _Any:
    """transformation(p, q): translation and rotation; without arguments zeros, see `transform_identity`; transformation(float) is its type."""

def vector(*values: _Any, **named: _Any) -> _Any:
    """vector(a, b, c) or vector(a, length=3, dtype=float): a vector value, of zeros without components; vector(3, float) is its type."""

def eig3(*values: _Any, **named: _Any) -> _Any:
    """(Q, d) with (a + a^T) / 2 = Q diag(d) Q^T: eigenvalues (not sorted) and eigenvectors, Q a rotation."""

def polar3(*values: _Any, **named: _Any) -> _Any:
    """(R, S) with a = R S: R the rotation U V^T nearest to a, S = R^T a the stretch (symmetric)."""

def qr3(*values: _Any, **named: _Any) -> _Any:
    """(Q, R) with a = Q R: Q a rotation, R upper triangular with r_00, r_11 >= 0 and r_22 with the sign of det(a)."""

def svd2(*values: _Any, **named: _Any) -> _Any:
    """(U, s, V) with a = U diag(s) V^T; V a rotation, s_0 >= s_1 >= 0, det(U) with the sign of det(a)."""

def svd3(*values: _Any, **named: _Any) -> _Any:
    """(U, s, V) with a = U diag(s) V^T; U and V rotations, s_0 >= s_1 >= |s_2|, s_2 with the sign of det(a)."""

def dense_chol(*values: _Any, **named: _Any) -> _Any:
    """L, lower triangular, with A + regularization 1 = L L^T; above its diagonal L stays as it is."""

def dense_gemm(*values: _Any, **named: _Any) -> _Any:
    """C = op(A) op(B) for an m x p matrix op(A), a p x n matrix op(B): transposed where t1 (t2) is 1."""

def dense_solve(*values: _Any, **named: _Any) -> _Any:
    """x with A x = b, for the factor L that `dense_chol` has made of A: as `dense_subs`."""

def dense_subs(*values: _Any, **named: _Any) -> _Any:
    """x with L L^T x = b, for the factor of `dense_chol`."""

def closest_point_edge_edge(*values: _Any, **named: _Any) -> _Any:
    """(s, t, distance): where the edges p1 q1 and p2 q2 come closest, p1 + s (q1 - p1) and p2 + t (q2 - p2)."""

def intersect_tri_tri(*values: _Any, **named: _Any) -> _Any:
    """1 if the triangles v0 v1 v2 and u0 u1 u2 have a point in common, else 0 (int32); vectors of length 3."""

def ddot(*values: _Any, **named: _Any) -> _Any:
    """sum_ij a_ij b_ij."""

def determinant(*values: _Any, **named: _Any) -> _Any:
    """det(m) of a 1x1 to 4x4 matrix."""

def get_diag(*values: _Any, **named: _Any) -> _Any:
    """The diagonal of a square matrix."""

def inverse(*values: _Any, **named: _Any) -> _Any:
    """m^-1 of a 1x1 to 4x4 matrix; the zero matrix where det(m) = 0. Derivative -m^-T ct m^-T."""

def inverse_approx(*values: _Any, **named: _Any) -> _Any:
    """As `inverse` (Warp's name for a variant with fast division)."""

def matrix_from_cols(*values: _Any, **named: _Any) -> _Any:
    """The matrix whose columns are the given vectors."""

def matrix_from_rows(*values: _Any, **named: _Any) -> _Any:
    """The matrix whose rows are the given vectors."""

def spatial_adjoint(*values: _Any, **named: _Any) -> _Any:
    """The 6x6 matrix [[r, 0], [s, r]] of 3x3 blocks."""

def trace(*values: _Any, **named: _Any) -> _Any:
    """sum_i m_ii."""

def transpose(*values: _Any, **named: _Any) -> _Any:
    """m^T."""

def curlnoise(*values: _Any, **named: _Any) -> _Any:
    """A smooth field without divergence: the curl of noise, a vec2 at a vec2, a vec3 at a vec3, or at (x, y, z, time)."""

def noise(*values: _Any, **named: _Any) -> _Any:
    """Smooth noise around 0 at the position x (a scalar, vec2, vec3 or vec4); 0 at whole numbers."""

def pnoise(*values: _Any, **named: _Any) -> _Any:
    """As `noise`, with whole periods px, py, pz, pt along the axes."""

def quat_between_vectors(*values: _Any, **named: _Any) -> _Any:
    """The shortest rotation that turns the direction of a into that of b: (a x b, 1 + a . b), normalised. Where they are opposite, half a turn about an axis across; the identity where a vector is zero."""

def quat_from_axis_angle(*values: _Any, **named: _Any) -> _Any:
    """(axis sin(angle / 2), cos(angle / 2)); axis a unit vector. For angle times axis see `quat_from_rotation_vector`."""

def quat_from_euler(*values: _Any, **named: _Any) -> _Any:
    """Rotations about the fixed axes number i, then j, then k, by the angles e[i], e[j], e[k]: q = q_k q_j q_i."""

def quat_from_matrix(*values: _Any, **named: _Any) -> _Any:
    """The unit quaternion of a rotation matrix (3x3, or the upper left of 4x4), by its largest component."""

def quat_from_rotation_vector(*values: _Any, **named: _Any) -> _Any:
    """The rotation by the angle |v| about v: (v sin(|v| / 2) / |v|, cos(|v| / 2)). Smooth, also at zero."""

def quat_inverse(*values: _Any, **named: _Any) -> _Any:
    """(-x, -y, -z, w): the inverse of a unit quaternion."""

def quat_rotate(*values: _Any, **named: _Any) -> _Any:
    """The vector x rotated by the unit quaternion q = (u, w): (2 w^2 - 1) x + 2 u (u . x) + 2 w u x x."""

def quat_rotate_inv(*values: _Any, **named: _Any) -> _Any:
    """The vector x rotated by the inverse of the unit quaternion q."""

def quat_rpy(*values: _Any, **named: _Any) -> _Any:
    """Roll about x, then pitch about y, then yaw about z (fixed axes)."""

def quat_slerp(*values: _Any, **named: _Any) -> _Any:
    """a (a^-1 b)^t: from a (t = 0) to b (t = 1) along the shorter arc; smooth for a near b."""

def quat_to_axis_angle(*values: _Any, **named: _Any) -> _Any:
    """(axis, angle) with angle = 2 atan2(|u|, |w|) in [0, pi] and axis = +-u / |u|."""

def quat_to_euler(*values: _Any, **named: _Any) -> _Any:
    """Angles about the fixed axes i, j, k, indexed by axis: the inverse of `quat_from_euler` for distinct axes."""

def quat_to_matrix(*values: _Any, **named: _Any) -> _Any:
    """The 3x3 rotation matrix whose columns are the rotated unit vectors."""

def quat_to_rotation_vector(*values: _Any, **named: _Any) -> _Any:
    """angle times axis of a rotation, the angle in [0, pi]: the inverse of `quat_from_rotation_vector`. Smooth, also at the identity."""

def quat_to_rpy(*values: _Any, **named: _Any) -> _Any:
    """(roll, pitch, yaw) of a unit quaternion: the inverse of `quat_rpy` for |pitch| < pi / 2."""

def quat_twist(*values: _Any, **named: _Any) -> _Any:
    """The part of q that turns about `axis` (a unit vector): normalize((axis (axis . u), w))."""

def quat_twist_angle(*values: _Any, **named: _Any) -> _Any:
    """The unsigned angle of the twist about `axis`: 2 atan2(|axis . u|, w)."""

def quat_twist_angle_signed(*values: _Any, **named: _Any) -> _Any:
    """The signed angle of the twist about `axis`: 2 atan2(axis . u, w)."""

def poisson(*values: _Any, **named: _Any) -> _Any:
    """A Poisson number (uint32): poisson(state, mean)."""

def rand_init(*values: _Any, **named: _Any) -> _Any:
    """The state of a new generator; different offsets (thread numbers) give unrelated sequences."""

def randf(*values: _Any, **named: _Any) -> _Any:
    """A random float32 in [0, 1): randf(state), or in [low, high): randf(state, low, high)."""

def randi(*values: _Any, **named: _Any) -> _Any:
    """A random int32: randi(state), or in [low, high): randi(state, low, high)."""

def randn(*values: _Any, **named: _Any) -> _Any:
    """A standard normal float32 (Box-Muller)."""

def randu(*values: _Any, **named: _Any) -> _Any:
    """A random uint32: randu(state), or in [low, high): randu(state, low, high)."""

def sample_cdf(*values: _Any, **named: _Any) -> _Any:
    """The number of the first entry of the array `cdf` (ascending) that is not below randf(state); else of the last."""

def sample_triangle(*values: _Any, **named: _Any) -> _Any:
    """Barycentric coordinates (u, v), uniform over a triangle."""

def sample_unit_cube(*values: _Any, **named: _Any) -> _Any:
    """A vec3 in [-1/2, 1/2)^3."""

def sample_unit_disk(*values: _Any, **named: _Any) -> _Any:
    """A vec2 inside the unit circle."""

def sample_unit_hemisphere(*values: _Any, **named: _Any) -> _Any:
    """A vec3 inside the upper (z >= 0) unit hemisphere."""

def sample_unit_hemisphere_surface(*values: _Any, **named: _Any) -> _Any:
    """A vec3 on the upper (z >= 0) unit hemisphere."""

def sample_unit_hypercube(*values: _Any, **named: _Any) -> _Any:
    """A vec4 in [-1/2, 1/2)^4."""

def sample_unit_ring(*values: _Any, **named: _Any) -> _Any:
    """A vec2 on the unit circle."""

def sample_unit_sphere(*values: _Any, **named: _Any) -> _Any:
    """A vec3 inside the unit sphere."""

def sample_unit_sphere_surface(*values: _Any, **named: _Any) -> _Any:
    """A vec3 on the unit sphere."""

def sample_unit_square(*values: _Any, **named: _Any) -> _Any:
    """A vec2 in [-1/2, 1/2)^2."""

def acos(*values: _Any, **named: _Any) -> _Any:
    """Arc cosine of x clamped to [-1, 1]. Derivative -1 / sqrt(1 - x^2) inside, 0 at the ends and outside."""

def asin(*values: _Any, **named: _Any) -> _Any:
    """Arc sine of x clamped to [-1, 1]. Derivative 1 / sqrt(1 - x^2) inside, 0 at the ends and outside."""

def clamp(*values: _Any, **named: _Any) -> _Any:
    """min(max(x, low), high), and as these it passes over a NaN: where x is one, the result is a bound. Derivative 1 by x inside and at the bounds, by the bound outside."""

def degrees(*values: _Any, **named: _Any) -> _Any:
    """180 x / pi."""

def frac(*values: _Any, **named: _Any) -> _Any:
    """x - trunc(x): the fractional part, with the sign of x. Derivative 1."""

def isfinite(*values: _Any, **named: _Any) -> _Any:
    """Whether x is neither infinite nor a NaN; of a composite: all components."""

def isinf(*values: _Any, **named: _Any) -> _Any:
    """Whether x is infinite; of a composite: any component."""

def isnan(*values: _Any, **named: _Any) -> _Any:
    """Whether x is a NaN; of a composite: any component."""

def lerp(*values: _Any, **named: _Any) -> _Any:
    """a (1 - t) + b t, of scalars, vectors, matrices, quaternions; t a scalar."""

def nonzero(*values: _Any, **named: _Any) -> _Any:
    """0 where x = 0, else 1. Derivative 0."""

def radians(*values: _Any, **named: _Any) -> _Any:
    """pi x / 180."""

def round(*values: _Any, **named: _Any) -> _Any:
    """The nearest integer, halves away from zero (`rint`: halves to even). Derivative 0."""

def sign(*values: _Any, **named: _Any) -> _Any:
    """-1 where x < 0, else 1; of each component for vectors and matrices. Derivative 0."""

def smoothstep(*values: _Any, **named: _Any) -> _Any:
    """t^2 (3 - 2 t) with t = clamp((x - edge0) / (edge1 - edge0), 0, 1)."""

def step(*values: _Any, **named: _Any) -> _Any:
    """1 where x < 0, else 0 (Warp's convention). Derivative 0."""

def lower_bound(*values: _Any, **named: _Any) -> _Any:
    """lower_bound(arr, value): the number (int32) of the first entry of an ascending array that is not below the value; of the last one, if all are. lower_bound(arr, begin, end, value): of the entries begin .. end - 1."""

def bit_count(*values: _Any, **named: _Any) -> _Any:
    """How many bits of the integer x are set, an int32; of a negative one in its two's complement. Derivative 0."""

def erfcinv(*values: _Any, **named: _Any) -> _Any:
    """The x with erfc(x) = p, for 0 <= p <= 2 (infinite at the ends); a NaN elsewhere."""

def erfinv(*values: _Any, **named: _Any) -> _Any:
    """The x with erf(x) = p, for -1 <= p <= 1 (infinite at the ends); a NaN elsewhere."""

def transform_compose(*values: _Any, **named: _Any) -> _Any:
    """The 4x4 matrix [[R diag(scale), position], [0, 1]]: scales, rotates, then translates."""

def transform_decompose(*values: _Any, **named: _Any) -> _Any:
    """(position, rotation, scale) of a 4x4 matrix [[R diag(scale), position], [0, 1]] with positive scales."""

def transform_from_matrix(*values: _Any, **named: _Any) -> _Any:
    """The transformation of a 4x4 matrix [[R, p], [0, 1]] with a rotation R."""

def transform_get_rotation(*values: _Any, **named: _Any) -> _Any:
    """The rotation q."""

def transform_get_translation(*values: _Any, **named: _Any) -> _Any:
    """The translation p."""

def transform_identity(*values: _Any, **named: _Any) -> _Any:
    """No translation and no rotation."""

def transform_inverse(*values: _Any, **named: _Any) -> _Any:
    """(-q^-1 p, q^-1)."""

def transform_multiply(*values: _Any, **named: _Any) -> _Any:
    """(p_a + q_a p_b, q_a q_b): applies b first, then a (operator *)."""

def transform_point(*values: _Any, **named: _Any) -> _Any:
    """p + q x; of a 4x4 matrix: the first three components of m (x, 1)."""

def transform_set_rotation(*values: _Any, **named: _Any) -> _Any:
    """Sets the rotation q of t."""

def transform_set_translation(*values: _Any, **named: _Any) -> _Any:
    """Sets the translation p of t."""

def transform_to_matrix(*values: _Any, **named: _Any) -> _Any:
    """The 4x4 matrix [[R, p], [0, 1]]."""

def transform_twist(*values: _Any, **named: _Any) -> _Any:
    """The twist (w, v) in another frame: (q w, q v + p x q w)."""

def transform_vector(*values: _Any, **named: _Any) -> _Any:
    """q x: without the translation; of a 4x4 matrix: the first three components of m (x, 0)."""

def transform_wrench(*values: _Any, **named: _Any) -> _Any:
    """The wrench (tau, f) in another frame: (q tau + p x q f, q f)."""

def argmax(*values: _Any, **named: _Any) -> _Any:
    """Number (uint32) of the largest component, of equal ones the first."""

def argmin(*values: _Any, **named: _Any) -> _Any:
    """Number (uint32) of the smallest component, of equal ones the first."""

def cross(*values: _Any, **named: _Any) -> _Any:
    """a x b of two vectors of length 3."""

def cw_div(*values: _Any, **named: _Any) -> _Any:
    """Component by component a_i / b_i, of vectors or matrices."""

def cw_mul(*values: _Any, **named: _Any) -> _Any:
    """Component by component a_i b_i, of vectors or matrices."""

def diag(*values: _Any, **named: _Any) -> _Any:
    """The square matrix with d on its diagonal."""

def dot(*values: _Any, **named: _Any) -> _Any:
    """sum_i a_i b_i, of vectors or quaternions."""

def length(*values: _Any, **named: _Any) -> _Any:
    """|a| = sqrt(a . a), of a vector or quaternion. Derivative a / |a|, and 0 at the zero vector."""

def length_sq(*values: _Any, **named: _Any) -> _Any:
    """a . a, of a vector or quaternion."""

def norm_huber(*values: _Any, **named: _Any) -> _Any:
    """v.v / 2 where |v| <= delta, else delta (|v| - delta / 2)."""

def norm_l1(*values: _Any, **named: _Any) -> _Any:
    """sum_i |v_i|."""

def norm_l2(*values: _Any, **named: _Any) -> _Any:
    """|v|, as `length`."""

def norm_pseudo_huber(*values: _Any, **named: _Any) -> _Any:
    """delta sqrt(1 + v.v / delta^2)."""

def normalize(*values: _Any, **named: _Any) -> _Any:
    """a / |a|. The zero vector stays zero, the zero quaternion becomes the identity; derivative 0 there."""

def outer(*values: _Any, **named: _Any) -> _Any:
    """The matrix a b^T: m_ij = a_i b_j."""

def signed_angle(*values: _Any, **named: _Any) -> _Any:
    """Angle from a to b about `axis`: atan2((a x b) . axis / |axis|, a . b), in [-pi, pi]. Zero vectors give 0."""

def skew(*values: _Any, **named: _Any) -> _Any:
    """The matrix of the cross product, skew(a) b = a x b, for length 3."""

def smooth_normalize(*values: _Any, **named: _Any) -> _Any:
    """v / norm_pseudo_huber(v, delta): smooth at the zero vector."""

def spatial_bottom(*values: _Any, **named: _Any) -> _Any:
    """The last three components: the linear part."""

def spatial_cross(*values: _Any, **named: _Any) -> _Any:
    """Motion cross product: (wa x wb, va x wb + wa x vb)."""

def spatial_cross_dual(*values: _Any, **named: _Any) -> _Any:
    """Force cross product: (wa x wb + va x vb, wa x vb)."""

def spatial_dot(*values: _Any, **named: _Any) -> _Any:
    """a . b of two spatial vectors (w, v) of length 6."""

def spatial_top(*values: _Any, **named: _Any) -> _Any:
    """The first three components: the angular part."""

def velocity_at_point(*values: _Any, **named: _Any) -> _Any:
    """Velocity v + w x r of the point at offset r of a body that moves with the twist qd = (w, v)."""

def bvh_get_group_root(*values: _Any, **named: _Any) -> _Any:
    """The node of a tree that holds the items of a group; -1 if there is no such group."""

def bvh_query_aabb(*values: _Any, **named: _Any) -> _Any:
    """A query for the items whose boxes overlap the box from `low` to `high`; of the subtree `root`, or of all (-1)."""

def bvh_query_capsule(*values: _Any, **named: _Any) -> _Any:
    """A query for the items whose boxes, grown by `radius` on all sides, the ray `start + t dir` meets. From p0 to p1: dir = p1 - p0, and bvh_query_next(query, index, 1.0)."""

def bvh_query_next(*values: _Any, **named: _Any) -> _Any:
    """bvh_query_next(query, index, max_dist=inf): finds the next item, if there is one. Both are variables: `index` becomes the item, and stays as it is where there is none. max_dist: of rays and capsules, [lengths of dir]."""

def bvh_query_ray(*values: _Any, **named: _Any) -> _Any:
    """A query for the items whose boxes the ray `start + t dir`, t >= 0, meets: bvh_query_ray(id, start, dir, root=-1)."""

def bvh_query_sphere(*values: _Any, **named: _Any) -> _Any:
    """A query for the items whose boxes a ball meets: bvh_query_sphere(id, center, radius, root=-1)."""

def hash_grid_point_id(*values: _Any, **named: _Any) -> _Any:
    """The number of the point at a position in the order of the cells: threads that take points in this order, and not in that of the array, ask for neighbours that are close in memory. -1 before the grid is built."""

def hash_grid_query(*values: _Any, **named: _Any) -> _Any:
    """A query for the points in the cells that a cube around a point touches: hash_grid_query(id, point, max_dist). They are more than those within max_dist, the distance from the point to the faces of the cube. With a fourth argument, `group`, only for points of that group."""

def hash_grid_query_next(*values: _Any, **named: _Any) -> _Any:
    """hash_grid_query_next(query, index): finds the next point, if there is one. Both are variables: `index` becomes the number of the point, and stays as it is where there is none."""

def mesh_eval_face_normal(*values: _Any, **named: _Any) -> _Any:
    """mesh_eval_face_normal(id, face): The unit normal of a face, on the side from which its corners go counterclockwise; 0 of one without area."""

def mesh_eval_position(*values: _Any, **named: _Any) -> _Any:
    """mesh_eval_position(id, face, bary_u, bary_v): The point u p + v q + (1 - u - v) r of a face with corners p, q, r."""

def mesh_eval_velocity(*values: _Any, **named: _Any) -> _Any:
    """mesh_eval_velocity(id, face, bary_u, bary_v): The velocity at the point (u, v) of a face; 0 of a mesh without velocities."""

def mesh_get(*values: _Any, **named: _Any) -> _Any:
    """mesh_get(id): The mesh as a struct with the arrays `points`, `velocities` and `indices`."""

def mesh_get_bvh(*values: _Any, **named: _Any) -> _Any:
    """mesh_get_bvh(id): the id of a `Bvh` of the boxes around the faces, for `bvh_query_ray` and others."""

def mesh_get_group_root(*values: _Any, **named: _Any) -> _Any:
    """mesh_get_group_root(id, group): What queries take as `root` to see the faces of a group only; -1, all faces, if there is no such group."""

def mesh_get_index(*values: _Any, **named: _Any) -> _Any:
    """mesh_get_index(id, index): Entry `index` of the indices: the number of a point."""

def mesh_get_point(*values: _Any, **named: _Any) -> _Any:
    """mesh_get_point(id, index): The point of entry `index` of the indices: corner `index` % 3 of face `index` // 3."""

def mesh_get_velocity(*values: _Any, **named: _Any) -> _Any:
    """mesh_get_velocity(id, index): The velocity of entry `index` of the indices; 0 of a mesh without velocities."""

def mesh_query_aabb(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_aabb(id, low, high): A walk over the faces whose box overlaps the box from `low` to `high`; `mesh_query_aabb_next` goes on."""

def mesh_query_aabb_next(*values: _Any, **named: _Any) -> _Any:
    """Whether there is another face; then the variable `index` gets its number: `while mesh_query_aabb_next(query, index):`."""

def mesh_query_furthest_point_no_sign(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_furthest_point_no_sign(id, point, min_dist): The furthest point of the mesh, a corner, if it is further away than min_dist."""

def mesh_query_next(*values: _Any, **named: _Any) -> _Any:
    """Whether there is another face; then the variable `index` gets its number: `while mesh_query_next(query, index):`."""

def mesh_query_point(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_point(id, point, max_dist): The closest point, if closer than max_dist; inside is where rays along the axes hit backs of faces first."""

def mesh_query_point_no_sign(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_point_no_sign(id, point, max_dist): The closest point of the mesh, if it is closer than max_dist."""

def mesh_query_point_sign_normal(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_point_sign_normal(id, point, max_dist, epsilon=0.001): The closest point, if closer than max_dist; inside is behind the surface there: its normal at an edge or a corner is the sum over the faces that meet, weighted by angle."""

def mesh_query_point_sign_parity(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_point_sign_parity(id, point, max_dist, n_sample=1, perturbation_scale=0.1): The closest point, if closer than max_dist; inside is where at least half of n_sample rays, in directions around (1, 1, 1), cross an odd number of faces."""

def mesh_query_point_sign_winding_number(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_point_sign_winding_number(id, point, max_dist, accuracy=2.0, threshold=0.5): The closest point, if closer than max_dist; inside is where the winding number is above the threshold."""

def mesh_query_ray(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_ray(id, start, dir, max_t, root=-1): The first face that the ray start + t dir hits, 0 <= t < max_t."""

def mesh_query_ray_anyhit(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_ray_anyhit(id, start, dir, max_t, root=-1): Whether the ray start + t dir hits anything, 0 <= t < max_t."""

def mesh_query_ray_count_intersections(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_ray_count_intersections(id, start, dir, root=-1): How many faces the ray start + t dir hits, t >= 0; a hit on an edge counts for both faces beside it."""

def mesh_query_sphere(*values: _Any, **named: _Any) -> _Any:
    """mesh_query_sphere(id, center, radius): A walk over the faces that come as close to `center` as `radius`; `mesh_query_aabb_next` goes on."""
