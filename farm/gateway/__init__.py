"""The road in for hosts that don't join Ray: the agent's four calls over HTTPS, a token per worker."""
