"""`python -m vmctl`: the same as the command `vmctl`."""

from vmctl.cli import main

if __name__ == "__main__":
    main()
