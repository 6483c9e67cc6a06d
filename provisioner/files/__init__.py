"""The files that a user needs, rendered from a lock and a site."""
