"""The timeline of a Hudi table: instants, their files and the metadata they carry."""
