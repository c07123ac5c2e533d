"""The objectives by name. Apart from the package, whose other parts must not need torch."""

from objectives.language import Language

OBJECTIVES = {"language": Language}
