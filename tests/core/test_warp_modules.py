"""`import sim` and `import sim.core`, and modules under the names that Warp's have."""

import importlib
import inspect
import operator
import sys

import pytest

import sim
import sim.core
from sim.core.lang.errors import NotSupportedError


@pytest.mark.parametrize("name", ["types", "utils", "optim", "autograd", "constants"])
def test_a_module_is_one_object_under_all_of_its_names(name):
    there = getattr(sim, name)
    assert getattr(sim.core, name) is there
    for package in ("sim", "sim.core"):
        assert importlib.import_module(f"{package}.{name}") is there


def test_what_is_inside_of_such_a_module_is_not_loaded_twice():
    adam = importlib.import_module("sim.optim.adam")
    assert adam is importlib.import_module("sim.core.optim.adam")
    assert adam.Adam is sim.optim.Adam


def test_the_core_has_every_name_of_the_language_and_none_of_the_physics():
    assert {name for name in sim.core.__all__ if getattr(sim, name) is not getattr(sim.core, name)} == set()
    assert {"kernel", "vec3", "Tape", "launch", "types"} <= set(sim.core.__all__)
    assert not {"Model", "Scene", "lang", "runtime", "sys"} & set(sim.core.__all__)


@pytest.mark.parametrize("package", ["sim", "sim.core"])
def test_modules_that_are_not_supported_are_refused_where_they_are_used(package):
    fem = importlib.import_module(f"{package}.fem")
    # whoever has imported it has it as an attribute of the package, which later tests ask for and want refused
    del vars(sys.modules[package])["fem"], sys.modules[f"{package}.fem"]
    with pytest.raises(NotSupportedError, match=f"{package}.fem.Grid2D is not supported: finite elements"):
        fem.Grid2D(res=3)
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{package}.nonsense'"):
        importlib.import_module(f"{package}.nonsense")
    with pytest.raises(ModuleNotFoundError, match="No module named 'sim.core.optim.nonsense'"):
        importlib.import_module(f"{package}.optim.nonsense")


@pytest.mark.parametrize("module", [sim, sim.core])
def test_names_that_are_not_there_say_what_is(module):
    with pytest.raises(AttributeError, match="has no attribute 'vec33' .did you mean 'vec3'"):
        module.vec33  # noqa: B018
    with pytest.raises(NotSupportedError, match="tile_load is not supported: tiles"):
        module.tile_load  # noqa: B018


def test_internals_of_warp_can_be_imported_and_are_refused_where_they_are_used():
    types = importlib.import_module("sim._src.types")
    assert types.vector is sim.types.vector
    assert importlib.import_module("sim._src.context").launch is sim.launch
    for name in (sim._src.codegen.codegen_func_forward, importlib.import_module("sim.core._src.utils").map_cache):
        with pytest.raises(NotSupportedError, match=r"_src\.\w+\.\w+ is not supported: internal to Warp"):
            name()
        with pytest.raises(NotSupportedError, match="internal to Warp"):
            name.anything  # noqa: B018


# Warp's functions that arrays, launches and devices are made of, with their arguments in Warp's order (1.19)
ARGUMENTS = {
    "launch": "kernel dim inputs outputs adj_inputs adj_outputs device stream adjoint record_tape record_cmd max_blocks"
    " block_dim",
    "copy": "dest src dest_offset src_offset count stream",
    "clone": "src device requires_grad pinned retain_grad",
    "zeros": "shape dtype device requires_grad pinned retain_grad",
    "full": "shape value dtype device requires_grad pinned retain_grad",
    "zeros_like": "src device requires_grad pinned retain_grad",
    "full_like": "src value device requires_grad pinned retain_grad",
    "from_numpy": "arr dtype shape device requires_grad retain_grad",
    "from_torch": "t dtype requires_grad grad",
    "map": "func inputs out return_kernel block_dim device",
    "capture_if": "condition on_true on_false stream arguments",
    "capture_while": "condition while_body stream arguments",
    "get_device": "ident",
    "set_device": "ident",
    "array.to": "self device requires_grad",
    "optim.Adam.step": "self grad",
    "Launch.launch": "self stream",
    "overload": "kernel arg_types",
    "autograd.gradcheck": "function dim inputs outputs eps atol rtol raise_exception input_output_mask device"
    " max_blocks block_dim max_inputs_per_var max_outputs_per_var plot_relative_error plot_absolute_error show_summary"
    " restore_inputs",
    "autograd.gradcheck_tape": "tape eps atol rtol raise_exception input_output_masks blacklist_kernels"
    " whitelist_kernels max_inputs_per_var max_outputs_per_var plot_relative_error plot_absolute_error show_summary"
    " reverse_launches skip_to_launch_index",
    "Tape.visualize": "self filename simplify_graph hide_readonly_arrays array_labels choose_longest_node_name"
    " ignore_graph_scopes track_inputs track_outputs track_input_names track_output_names graph_direction",
    "utils.graph_coloring_assign": "edges node_colors algorithm",
    "utils.graph_coloring_balance": "edges node_colors color_count target_max_min_ratio max_iterations",
    "utils.graph_coloring_get_groups": "node_colors color_count return_wp_array device",
    "load_module": "module device recursive block_dim max_workers",
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_have_warps_names_and_order(name):
    wanted = ARGUMENTS[name].split()
    assert list(inspect.signature(operator.attrgetter(name)(sim)).parameters)[: len(wanted)] == wanted


def test_errors_that_warps_programs_catch():
    """By the classes that they are of in Warp, too."""
    kinds = {"Codegen": RuntimeError, "CodegenType": TypeError, "CodegenValue": ValueError, "Determinism": RuntimeError}
    for name, kind in {**kinds, "CodegenAttribute": AttributeError, "CodegenKey": KeyError}.items():
        assert issubclass(getattr(sim, f"Warp{name}Error"), kind)
