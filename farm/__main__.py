"""`python -m farm`: the same as the command `farm`."""

from farm.cli import main

if __name__ == "__main__":
    main()
