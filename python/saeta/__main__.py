"""`python -m saeta` is the command `saeta`."""

from saeta.cli import main

if __name__ == "__main__":
    main()
