"""Random walks: edits of declared resources and of the world around them, and what must hold."""
