"""The protocol of Postgres, as far as a look needs it: for a process that makes its connections
itself, because it must know where they lead.

Source: the manual's chapter "Frontend/Backend Protocol"
(https://www.postgresql.org/docs/current/protocol.html).
"""
