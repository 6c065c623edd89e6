"""Which files a snapshot has, what deletes apply to them, and which a filter can skip."""
