"""A folder on the path of Spark's Python workers: Python runs `sitecustomize` before all else.

- Python workers of streams on a busy machine: `sitecustomize`
"""
