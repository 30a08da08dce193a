"""The root of every error that the farm raises on purpose; the command line prints one line and exits."""


class FarmError(Exception):
    """Work that could not be done: file, database, network, machine (exit code 1)."""

    exit_code = 1


class UsageError(FarmError):
    """A wrong word, value or combination given by the user (exit code 2)."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that nothing answers to; the message lists the names that exist."""

    def __init__(self, noun: str, name: str, known: list[str]) -> None:
        super().__init__(f"no {noun} named {name!r}; there are {', '.join(known) or 'none'}")
