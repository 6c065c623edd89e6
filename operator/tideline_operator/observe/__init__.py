"""Looking at tables: their timelines, landing files and Iceberg metadata, never their rows."""
