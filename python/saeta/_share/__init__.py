"""Memory that processes of one user share on one machine."""
