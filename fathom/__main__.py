"""`python -m fathom VERB …` is `fathom VERB …`."""

from fathom.search.cli import main

if __name__ == "__main__":
    main()
