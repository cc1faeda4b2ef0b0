"""Run the command line with ``python -m anonbayes``, where the script is not on the path."""

from anonbayes.cli.app import main

if __name__ == "__main__":
    main()
