"""`check` of an Iceberg table: does what its metadata leads to exist, and is it what it says?"""
