"""`python -m dragoman` is the command `dragoman`."""

from dragoman.cli.main import run

if __name__ == "__main__":
    run()
