"""What fits together: the compatibility matrix, the request, the rules, and the stack that satisfies both."""
