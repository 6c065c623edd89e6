"""How record keys and partition paths are made; said at creation, and the same for every writer."""

from __future__ import annotations

from tideline.settings.entries import OFF, flag, harmless, refused, settles
from tideline.settings.setting import Kind

_OLD = "hoodie.deltastreamer.keygen."

SETTINGS = (
    settles(
        "hoodie.keygen.timebased.timestamp.type",
        "UNIX_TIMESTAMP, EPOCHMILLISECONDS, EPOCHMICROSECONDS, DATE_STRING, SCALAR, MIXED",
        aliases=(f"{_OLD}timebased.timestamp.type",),
    ),
    settles(
        "hoodie.keygen.timebased.output.dateformat",
        "how the partition path reads, in Joda's letters",
        aliases=(f"{_OLD}timebased.output.dateformat",),
    ),
    settles(
        "hoodie.keygen.timebased.input.dateformat",
        "how text in the column reads; several, separated",
        aliases=(f"{_OLD}timebased.input.dateformat",),
    ),
    settles(
        "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex",
        "what separates them",
        default=",",
        aliases=(f"{_OLD}timebased.input.dateformat.list.delimiter.regex",),
    ),
    settles(
        "hoodie.keygen.timebased.timezone",
        "zone of input and output",
        aliases=(f"{_OLD}timebased.timezone",),
    ),
    settles(
        "hoodie.keygen.timebased.input.timezone",
        "zone of text without an offset",
        aliases=(f"{_OLD}timebased.input.timezone",),
    ),
    settles(
        "hoodie.keygen.timebased.output.timezone",
        "zone of the partition path",
        aliases=(f"{_OLD}timebased.output.timezone",),
    ),
    settles(
        "hoodie.keygen.timebased.timestamp.scalar.time.unit",
        "what a SCALAR counts, such as DAYS",
        default="SECONDS",
        aliases=(f"{_OLD}timebased.timestamp.scalar.time.unit",),
    ),
    settles(
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
        "timestamps in keys and partitions as text",
        kind=Kind.FLAG,
        default="false",
    ),
    *refused(
        "names a Java class, and Tideline runs none; the formats of the table decide",
        "hoodie.keygen.datetime.parser.class",
        "hoodie.deltastreamer.keygen.datetime.parser.class",
        unless=("HoodieDateTimeParser",),
    ),
    *refused(
        "the keys that a table has already decide how a key of one field is spelled; leave it out",
        "hoodie.write.complex.keygen.new.encoding",
        unless=OFF,
    ),
    flag(
        "hoodie.write.complex.keygen.validation.enable",
        "true",
        "false where all keys of one column are known to be spelled in one way, as in tables that "
        "Tideline creates: Hudi's writers need it there. Here the keys in a table decide",
    ),
    *refused(
        "secondary indexes are not supported; leave it out",
        "hoodie.datasource.write.secondarykey.column",
    ),
    *harmless(
        "a check of upgrades from Hudi before 0.9, which Tideline does not make",
        "hoodie.skip.default.partition.validation",
    ),
)
