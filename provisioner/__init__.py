"""One solved GPU stack, carried from resolution through Dockerfile, sbatch script and host set-up to the proof that it runs."""

__version__ = "0.1.0"
