"""``python -m anonbayes``: the command line, where its script is not on the path."""

from anonbayes.cli.app import main

if __name__ == "__main__":
    main()
