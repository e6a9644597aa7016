"""`python -m placings`: the program, where its script is not on the path."""

from placings.cli import run

if __name__ == "__main__":
    run()
