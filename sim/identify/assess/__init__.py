"""What a result is worth: residuals, standard errors, gradients against differences, alignment of recordings."""
