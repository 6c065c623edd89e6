"""The memory of this process."""
