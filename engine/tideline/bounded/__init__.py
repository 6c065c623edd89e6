"""Reading what others wrote or give, within limits.

- limits on files of other writers, parsing within them: `read_limits`, `parsing`
- texts that callers give a commit: `given_texts`
"""
