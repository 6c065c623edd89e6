"""A commit of a write or a service: pending, in conflict or not, completed; what became of it."""
