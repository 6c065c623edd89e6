"""A folder on the path of Spark's Python workers: Python runs `sitecustomize` before all else."""
