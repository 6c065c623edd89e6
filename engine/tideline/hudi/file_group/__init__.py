"""Reading and writing the files of a file group: base files, logs, both merged, both rewritten."""
