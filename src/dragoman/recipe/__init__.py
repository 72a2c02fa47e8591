"""What a run should be: the `Recipe`, the library of recipes, and how settings that nobody asked for are chosen."""
