"""How far a result is the numerics' own: what shorter steps, more iterations and a finer mesh would change of it."""

from sim.identify.numerics.convergence import Convergence as Convergence
from sim.identify.numerics.convergence import convergence as convergence
from sim.identify.numerics.numerical_error import NumericalError as NumericalError
from sim.identify.numerics.numerical_error import Shift as Shift
from sim.identify.numerics.numerical_error import estimate_shifts as estimate_shifts
from sim.identify.numerics.numerical_error import numerical_error as numerical_error
from sim.identify.numerics.own_damping import OwnDamping as OwnDamping
from sim.identify.numerics.own_damping import own_damping as own_damping
