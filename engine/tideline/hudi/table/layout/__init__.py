"""Table layouts: all that differs between table versions, one module for each form on disk."""
