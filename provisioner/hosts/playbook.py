"""Playbooks: host set-up as data. Decoding only; `plan` says what of it is to be done, `export` writes it as a script."""
