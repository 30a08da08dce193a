"""The farm in a browser: pages over the same rows as every other command, and a JSON twin of each."""
