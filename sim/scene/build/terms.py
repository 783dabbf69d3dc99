"""The terms of a scene's loss."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sim.identify.data.experiments import Experiment, Markers
from sim.identify.losses.terms import TERMS
from sim.identify.losses.terms.base import Term, TermContext
from sim.identify.parameters.parameters import Parameter
from sim.model import Model
from sim.scene.build.context import BuildContext


def make_terms(
    context: BuildContext,
    model: Model | None,
    markers: dict[str, Markers],
    experiments: list[Experiment],
    parameters: Sequence[Parameter],
) -> list[Term]:
    """The terms of the loss; without a model (it could not be built) those that need it are left out."""
    out: list[Term] = []
    uses: dict[str, int] = {}
    for i, entry in enumerate(context.data["loss"]):
        path = f"loss.{i}"
        term = next(term for key, term in TERMS.items() if key in entry)
        about = term.about(entry)
        name = f"{term.key}_{about.rpartition(':')[2]}"
        uses[name] = uses.get(name, 0) + 1
        name = name if uses[name] == 1 else f"{name}_{uses[name]}"
        if not term.has_residuals and "gauss_newton" in context.data["optimize"]:
            what = f"Gauss-Newton needs residuals, and `{about}` (in `{path}`) has none"
            context.problem("optimize.gauss_newton", what, "use `lbfgs` or `adam`")
            continue
        problem = partial(_problem, context, path)
        about_scene = (model, markers, experiments, parameters, context.scene.modules)
        out += term.build(entry, name, TermContext(*about_scene, problem, context.unread))
    return out


def _problem(context: BuildContext, path: str, key: str, what: str, hint: str) -> None:
    context.problem(f"{path}.{key}" if key else path, what, hint)
