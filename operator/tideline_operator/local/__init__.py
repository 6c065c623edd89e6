"""`tideline run`: LakeTables in a file, carried out by processes of this machine."""
