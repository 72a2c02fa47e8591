"""What a run shall be: the `Recipe`, the library of recipes, and how settings that nobody asked for are chosen."""
