"""Cleaning: deleting file versions that no reader within the retention needs any more."""
