"""`python -m tideline` is the `tideline` command."""

from tideline.cli.main import main

if __name__ == "__main__":
    main()
