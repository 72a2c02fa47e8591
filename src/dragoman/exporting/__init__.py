"""Models of other toolkits, in and out: each toolkit has a room of its own."""
