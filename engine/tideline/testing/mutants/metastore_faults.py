"""Faults in how tables are registered and kept in Hive's metastore and AWS's Glue."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_REGISTRATION = "engine/tideline/registration"
_TESTS = "engine/tests/registration"
_GLUE, _HIVE = "engine/tideline/glue", "engine/tideline/hive"
_CATALOGS = "engine/tideline/iceberg/table"
_TWIN = f"{_TESTS}/test_sync_hive_twin.py"
_TWIN_OF_CATALOG = "engine/tests/iceberg/test_hive_catalog_twin.py"
_LOOKUP = "engine/tests/hive/test_metastore_lookup.py"

METASTORE_FAULTS = (
    Fault(
        "a change of a Hive table does not name the position that it saw",
        f"{_REGISTRATION}/hive.py",
        "        if seen.last_commit is not None:\n",
        "        if seen.last_commit is None:\n",
        (_TWIN,),
    ),
    Fault(
        "new columns do not reach the partitions of a Hive table",
        f"{_REGISTRATION}/hive.py",
        '            context["CASCADE"] = "true"\n',
        '            context["CASCADE"] = "false"\n',
        (_TWIN,),
    ),
    Fault(
        "a Hive partition that was not asked for is moved",
        f"{_REGISTRATION}/hive.py",
        "        there = (stored for stored in stored_ones if _values(stored) in places)\n",
        "        there = iter(stored_ones)\n",
        (_TWIN,),
    ),
    Fault(
        "partitions that a metastore makes up are dropped there",
        f"{_REGISTRATION}/sync.py",
        "        return tuple(partition for partition in found if partition.values in asked)\n",
        "        return tuple(found)\n",
        (_TWIN,),
    ),
    Fault(
        "the position is noted though another has synced meanwhile",
        f"{_REGISTRATION}/sync.py",
        "        if known.last_commit != (self.seen.last_commit if self.seen else None):\n"
        "            return False\n",
        "",
        (_TWIN,),
    ),
    Fault(
        "the position is noted before the partitions are sent",
        f"{_REGISTRATION}/sync.py",
        "        now = whole if self.partitions.is_empty else self.planned\n",
        "        now = whole\n",
        (f"{_TESTS}/test_sync_table.py",),
    ),
    Fault(
        "a table of the same name at another place is taken over",
        f"{_REGISTRATION}/plan.py",
        "    if not _is_same_place(seen.location, wanted.location):\n",
        "    if not seen.location:\n",
        (f"{_TESTS}/test_registered_definition.py", f"{_TESTS}/test_sync_table.py"),
    ),
    Fault(
        "a view of the same name is taken for the table",
        f"{_REGISTRATION}/plan.py",
        '    is_view = "VIEW" in seen.kind.upper()\n',
        '    is_view = seen.kind == "VIEW"\n',
        (f"{_TESTS}/test_registered_definition.py", f"{_TESTS}/test_sync_table.py"),
    ),
    Fault(
        "an address of a metastore is taken from the table",
        f"{_REGISTRATION}/target.py",
        '            address=own.get(setting_name(kind, "uri")),\n',
        '            address=named.get(setting_name(kind, "uri")),\n',
        (f"{_TESTS}/test_sync_follows.py",),
    ),
    Fault(
        "the address of a metastore is kept in the table",
        f"{_REGISTRATION}/follow.py",
        '        properties[setting_name(kind, "name")] = target.name.name\n',
        '        properties[setting_name(kind, "name")] = target.name.name\n'
        '        properties[setting_name(kind, "uri")] = target.address or ""\n',
        (f"{_TESTS}/test_sync_follows.py",),
    ),
    Fault(
        "a sync that fails fails the commit",
        f"{_REGISTRATION}/follow.py",
        "        (done,) = sync_targets(table, (target,))\n    except Exception as error:\n",
        "        (done,) = sync_targets(table, (target,))\n    except ValueError as error:\n",
        (f"{_TESTS}/test_sync_follows.py",),
    ),
    Fault(
        "partitions that Glue had no time for are left out",
        f"{_REGISTRATION}/glue.py",
        '                left = answer.get("UnprocessedKeys") or []\n',
        "                left: Any = []\n",
        (f"{_TESTS}/test_sync_glue.py",),
    ),
    Fault(
        "a change whose answer is lost is sent to Glue again",
        f"{_GLUE}/client.py",
        "action.startswith(_READS)",
        'action.startswith((*_READS, "Update", "Create"))',
        ("engine/tests/glue/test_glue_requests.py", "engine/tests/iceberg/test_glue_catalog.py"),
    ),
    Fault(
        "a region that is no name becomes a part of a server's name",
        f"{_GLUE}/address.py",
        "        if not _REGION.fullmatch(region):\n",
        "        if not region:\n",
        ("engine/tests/glue/test_glue_requests.py",),
    ),
    Fault(
        "a commit to Glue overwrites one that came in between",
        f"{_CATALOGS}/catalog_glue.py",
        '            VersionId=entry["VersionId"],\n',
        "",
        ("engine/tests/iceberg/test_glue_catalog.py",),
    ),
    Fault(
        "the operator signs a request to a tenant's Glue as itself",
        f"{_CATALOGS}/catalog_glue.py",
        "    if access.is_of_process:\n        return keys_of_process(given, region)\n",
        "    if access:\n        return keys_of_process(given, region)\n",
        ("operator/tests/reading/test_glue_egress.py",),
    ),
    Fault(
        "a commit to Hive does not say which metadata it replaces",
        f"{_CATALOGS}/catalog_hive.py",
        '            environment_context.properties["expected_parameter_key"] = _METADATA\n',
        "            pass\n",
        (_TWIN_OF_CATALOG,),
    ),
    Fault(
        "a lock of a broken connection to Hive stays until it ends",
        f"{_CATALOGS}/catalog_hive.py",
        "                with Connection(self.addresses, Client, self.user) as client:\n"
        "                    client.unlock(rqst)\n",
        "                raise\n",
        (_TWIN_OF_CATALOG,),
    ),
    Fault(
        "what Hive refuses counts as a commit that may have taken place",
        f"{_CATALOGS}/catalog_hive.py",
        "        except REFUSALS as error:\n",
        "        except ttypes.InvalidInputException as error:\n",
        (_TWIN_OF_CATALOG,),
    ),
    Fault(
        "a change that another writer made Hive refuse is not made again",
        f"{_CATALOGS}/catalog_hive.py",
        "            if has_moved_on(error):\n",
        "            if not error.message:\n",
        (_TWIN_OF_CATALOG,),
    ),
    Fault(
        "a table that was renamed during a commit leaves its outcome unknown",
        f"{_CATALOGS}/catalog_files.py",
        "        if current_table is None:\n",
        "        if current_table is None and not requirements:\n",
        (_TWIN_OF_CATALOG,),
    ),
    Fault(
        "tables of other formats in Hive are taken for Iceberg's",
        f"{_CATALOGS}/catalog_hive_lookup.py",
        "    if kind != _ICEBERG:\n",
        "    if kind is None:\n",
        ("operator/tests/reading/test_hive_egress.py",),
    ),
    Fault(
        "the operator connects to a tenant's metastore past its proxy",
        f"{_CATALOGS}/catalog_hive_lookup.py",
        "            access.connect,\n",
        "            None,\n",
        ("operator/tests/reading/test_hive_egress.py",),
    ),
    Fault(
        "a metastore that is not reached counts as one that answered",
        "engine/tideline/storage/egress/route.py",
        'raise StorageUnavailableError(problem) from ConnectionError("not connected")',
        "raise StorageUnavailableError(problem)",
        ("operator/tests/reading/test_hive_egress.py",),
    ),
    Fault(
        "an answer of Hive's about another table is taken",
        f"{_HIVE}/connection.py",
        "(same_name(found.dbName, dbname) and same_name(found.tableName, tbl_name))",
        "found",
        (_LOOKUP,),
    ),
    Fault(
        "values in an answer of Hive's are not counted by Thrift's own protocol",
        f"{_HIVE}/connection.py",
        "        self.trans.count(length)\n",
        "        pass\n",
        (_LOOKUP,),
    ),
    Fault(
        "a table of another name is listed for the operator",
        f"{_HIVE}/lookup.py",
        "    return is_asked and same_name(table.database, database)\n",
        "    return is_asked or same_name(table.database, database)\n",
        (_LOOKUP,),
    ),
    Fault(
        "all tables of a Hive database are asked for at once",
        f"{_HIVE}/lookup.py",
        "_TABLES_AT_ONCE = 100\n",
        "_TABLES_AT_ONCE = 1_000_000\n",
        (_LOOKUP,),
    ),
    Fault(
        "an answer of Hive's that drips has no end",
        f"{_HIVE}/transport.py",
        "            if left_s <= 0:\n                raise TimeoutError\n"
        "            self._socket.settimeout(min(self._timeout_s, left_s))\n",
        "            self._socket.settimeout(self._timeout_s)\n",
        (_LOOKUP,),
    ),
    Fault(
        "an answer of Hive's has no limit on its bytes",
        f"{_HIVE}/transport.py",
        "        if self._left < 0:\n",
        "        if self._left is None:\n",
        (_LOOKUP,),
    ),
    Fault(
        "bytes behind an answer of Hive's are taken for the next one",
        f"{_HIVE}/transport.py",
        "        if self._at < len(self._in):\n",
        "        if self._at > len(self._in):\n",
        (_LOOKUP,),
    ),
    Fault(
        "only the first address of a metastore is tried",
        f"{_HIVE}/transport.py",
        "            except StorageUnavailableError as error:\n                failure = error\n"
        "            except (OSError, UnicodeError, OverflowError) as error:\n",
        "            except (UnicodeError, OverflowError) as error:\n",
        (_LOOKUP,),
    ),
    Fault(
        "levels of an answer of Hive's have no end",
        f"{_HIVE}/wire.py",
        "    if depth > DEPTH_MAX:\n",
        "    if depth < 0:\n",
        (_LOOKUP,),
    ),
    Fault(
        "an answer to another call of Hive's is taken",
        f"{_HIVE}/wire.py",
        "    if kind != _REPLY or name != method:\n",
        "    if kind != _REPLY:\n",
        (_LOOKUP,),
    ),
    Fault(
        "an address of a metastore may hold a password",
        f"{_HIVE}/address.py",
        '    has_more = "@" in parts.netloc or parts.path',
        "    has_more = parts.path",
        (_LOOKUP,),
    ),
)
