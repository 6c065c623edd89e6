"""Cleaning: deleting file versions that no reader within the retention needs any more.

- what a clean must not delete: `deletion_guard`
- cleaning: what is kept, what goes, doing it: `retention`, `plan`, `execute`
"""
