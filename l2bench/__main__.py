"""``python -m l2bench``: the command line."""

from l2bench.cli.main import main

if __name__ == "__main__":
    main()
