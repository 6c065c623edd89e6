"""Rolling back what dead writers left, as a service: the first to run."""
