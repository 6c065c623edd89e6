"""What looks over connections share that somebody else makes: bytes and seconds that are bounded,
and signing in.
"""
