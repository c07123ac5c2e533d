"""`python -m search VERB …` is `fathom VERB …`, in a checkout."""

from fathom.__main__ import main

if __name__ == "__main__":
    main()
