"""Every setting that Tideline knows: its own, Hudi's, and Flink's names for services.

`families` holds them as values, `registry` finds them by any of their names, `gate` checks what
users give, and `page` writes the documentation.

- settings: names, how each is handled: this package, `settings.families`, `docs/settings.md`
- judging settings that are given, or stored: `gate`, `hudi.table.agreement`
"""
