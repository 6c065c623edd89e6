"""How the sources of ingests are declared: a kind of source is a file, and a line in `kinds`."""
