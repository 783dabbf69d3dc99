"""Constraints: one file each, found by name in `REGISTRY`."""

from sim.constraints.attachment import attachment as attachment
from sim.constraints.base import REGISTRY as REGISTRY
from sim.constraints.base import Constraint as Constraint
from sim.constraints.base import ConstraintError as ConstraintError
from sim.constraints.base import ConstraintParameter as ConstraintParameter
from sim.constraints.base import constraint as constraint
from sim.constraints.base import find_constraint as find_constraint
from sim.constraints.bend import bend as bend
from sim.constraints.contact import contact_plane as contact_plane
from sim.constraints.contact import contact_sphere as contact_sphere
from sim.constraints.distance import distance as distance
from sim.constraints.distance import shear as shear
from sim.constraints.lever import lever as lever
from sim.constraints.neo_hookean import neo_hookean as neo_hookean
from sim.constraints.stvk import deviatoric as deviatoric
from sim.constraints.stvk import stvk as stvk
from sim.constraints.viscoelastic import viscoelastic as viscoelastic
from sim.constraints.viscoelastic import viscoelastic_shape as viscoelastic_shape
from sim.constraints.volume import cell_volume as cell_volume
from sim.constraints.volume import volume as volume
