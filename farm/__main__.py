"""`python -m farm`: the same as the command `farm`."""

import sys

try:
    from farm.cli import main
except KeyboardInterrupt:  # while modules are loaded: nobody else says it yet
    print("farm: interrupted", file=sys.stderr)
    sys.exit(130)

if __name__ == "__main__":
    main()
