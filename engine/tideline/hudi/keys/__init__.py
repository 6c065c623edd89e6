"""Record keys and partition paths: what makes them, how they are spelled, times in them."""
