"""Records that tasks have read: what is kept of them, and which of their rows stay."""
