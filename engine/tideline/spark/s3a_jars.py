"""The former name of `tideline.spark.session.s3a_jars`, kept until the next release."""

from __future__ import annotations

import sys
import warnings

from tideline.spark.session.s3a_jars import (
    INSTALL_COMMAND,
    find_s3a_jars,
    install_s3a_jars,
    main,
    s3a_jars_folder,
)

__all__ = ["find_s3a_jars", "install_s3a_jars", "main", "s3a_jars_folder"]

warnings.warn(
    f"tideline.spark.s3a_jars is now `{INSTALL_COMMAND}`", DeprecationWarning, stacklevel=2
)

if __name__ == "__main__":
    sys.exit(main())
