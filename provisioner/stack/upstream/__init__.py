"""What an upstream says of its own releases → rows: one module a framework. The rest of the stack holds no framework's name."""

#: The frameworks whose new releases can be read from a package index (`provisioner matrix refresh`).
REFRESHABLE = ("torch", "tensorflow", "jax")
