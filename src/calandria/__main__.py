"""`python -m calandria` is the `calandria` command."""

from calandria.cli import main

if __name__ == "__main__":
    main()
