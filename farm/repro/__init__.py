"""One case as one file that runs without the farm."""
