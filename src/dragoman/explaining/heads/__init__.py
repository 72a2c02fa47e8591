"""What each attention head does, and what happens without it. Start with `table`."""
