"""The lists of arrows: the only package that joins the wings. Each module here is one straight line of design.md."""
