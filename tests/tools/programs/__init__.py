"""Small programs in the kernel language, with what Python or NumPy says of them."""
