#!/bin/sh
# Removes from a virtual environment what only tests, compilers and other programs read, and the
# files of packages that a list names by patterns: slim.sh VENV LIST
set -eu
packages="$1/lib/python3.11/site-packages"
cd "${packages}"
find . -type d \( -name tests -o -name testing -o -name test -o -name include \) \
  -not -path './tideline*' -not -path './numpy/testing' -not -path './pyspark/testing' \
  -prune -exec rm -rf {} +
rm -rf kubernetes/aio kubernetes/e2e_test pyspark/examples pyspark/data pyspark/licenses \
  pyarrow/src pyarrow/libarrow_flight* pyarrow/libarrow_python_flight* pyarrow/_flight*
grep -v '^#' "$2" | while read -r pattern; do
  # shellcheck disable=SC2086
  rm -rf ${pattern}
done
rm -rf pip pip-* setuptools setuptools-* wheel wheel-* hatchling hatchling-* pkg_resources \
  pathspec pathspec-* pluggy pluggy-* tomlkit tomlkit-* trove_classifiers trove_classifiers-* \
  _distutils_hack distutils-precedence.pth "$1"/bin/pip* "$1"/bin/__pycache__
