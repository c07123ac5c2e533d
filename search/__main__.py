"""`python -m search VERB …` is `fathom VERB …`, in a checkout."""

from fathom.search.cli import main

if __name__ == "__main__":
    main()
