"""Faults in the guards against what a tenant, a catalog or a table says."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_CONTROLLER = "operator/tideline_operator/controller"
_CONTROLLER_TESTS = "operator/tests/controller"

TRUST_FAULTS = (
    Fault(
        "Secrets of one name in two namespaces are one",
        f"{_CONTROLLER}/catalog_secrets.py",
        "        key = namespace, name\n",
        '        key = "", name\n',
        (f"{_CONTROLLER_TESTS}/test_catalog_secrets.py",),
    ),
    Fault(
        "a rotated Secret of a catalog is never noticed",
        f"{_CONTROLLER}/catalog_secrets.py",
        "        if known is not None and now_s - known[0] <= FRESH_S:\n",
        "        if known is not None:\n",
        (f"{_CONTROLLER_TESTS}/test_catalog_secrets.py",),
    ),
    Fault(
        "a link leads a delete into another table",
        "engine/tideline/storage/delete_scope.py",
        "        root = root_around(real, self.nested)\n",
        "        root = root_around(path, self.nested)\n",
        ("engine/tests/storage/test_delete_scope.py",),
    ),
)
