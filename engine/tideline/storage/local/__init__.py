"""Folders of this machine.

- files that are opened in a local folder: `regular_file`, `storage.named_places`
- local folder, S3, memory: `store`, `listing`, `storage.s3.store`, `storage.memory.store`
"""
