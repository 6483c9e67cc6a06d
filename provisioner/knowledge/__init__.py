"""The finding registry and what it knows of each finding."""
