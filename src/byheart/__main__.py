"""`python -m byheart`: the same as the command `byheart`."""

from byheart.cli.main import main

if __name__ == "__main__":
    main()
