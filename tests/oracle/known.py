"""Programs of this folder whose numbers are not those of Warp 1.19, and what is right.

Each was decided by hand or by differences; what sim computes is checked by the tests of the functions themselves.
"""

_COMPONENTS = "a component that is overwritten has no gradient to its old value, one that is added to has it once"

DIFFERENT = {
    "numbers/frac_f": "the gradient is 1; Warp gives 0",
    "numbers/frac_d": "the gradient is 1; Warp gives 0",
    "numbers/mod": "the gradient by y is -trunc(x / y); Warp gives 0",
    "numbers/pnoise_below_zero": "the noise is periodic across zero; that of Warp is not",
    "tuples/vec_component_store": _COMPONENTS,
    "tuples/mat_store": _COMPONENTS,
    "tuples/vec_slice_store": _COMPONENTS,
    "tuples/mat_block_store": _COMPONENTS,
    "tuples/transform_set": _COMPONENTS,
    "host/type_properties": "vector(length=3, dtype=float32) is vec3; in Warp another type",
    "functions/tuples_in_kernels": "the gradient goes through tuples; Warp gives 0",
    "functions/struct_made_in_kernel": "a field that was stored twice is differentiated as it is used",
    "functions/dynamic_loop": "the gradient of a loop whose variable is assigned anew, as differences have it",
    "mixed/sums_of_runtime_loops": "the gradient of a square of a sum over a loop is at the sum; in Warp before it",
    "derivatives/func_grad_of_rows_and_structs": "adjoint[row] of a row that is passed reaches the array; Warp gives 0",
    "functions/local_array": "the gradient goes through arrays of a thread; Warp gives 0",
}
