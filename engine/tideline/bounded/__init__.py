"""Reading what others wrote, within limits."""
