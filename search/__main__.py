"""`python -m search VERB …` is `fathom VERB …`."""

from search.cli import main

main()
