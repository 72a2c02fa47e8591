"""What a run shall be: the `Recipe`, the library of recipes, and how what nobody asked for is chosen."""
