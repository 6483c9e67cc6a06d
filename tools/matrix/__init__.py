"""Facts → rows of compat_matrix.yaml, one module a subject."""
