"""HTTP server: one search shared by all clients, limits, and the wire formats of existing clients."""
