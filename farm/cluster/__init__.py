"""Ray: a private one for a campaign, or a head that others join."""
