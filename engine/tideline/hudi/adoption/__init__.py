"""The dossier of a table before anybody touches it."""
