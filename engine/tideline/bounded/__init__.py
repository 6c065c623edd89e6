"""Reading what others wrote, within limits.

- limits on files of other writers, parsing within them: `read_limits`, `parsing`
"""
