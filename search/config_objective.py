"""The keys of each objective, in the study file below `objective`."""

from typing import Any, Literal

from pydantic import Field

from search.config_values import Group, Number, Positive, Real


class LanguageConfig(Group):
    """Next-token prediction on text."""

    name: Literal["language"]
    corpus: str = Field("stdlib", max_length=4096)
    """`stdlib`, a known name such as `tiny_shakespeare`, or a path: file, folder or glob."""
    tokenizer: str = Field(
        "bytes",
        pattern=r"^(bytes|chars|bpe:[0-9]{1,9})$",
        description="`bytes`, `chars` or `bpe:N`, for example bpe:1024",
    )
    """`bytes`, `chars` or `bpe:N` with N token ids."""
    context: Positive = 256
    """Tokens in a training sequence."""
    eval_tokens: Number = 131_072
    """Held-out tokens in an evaluation."""
    validation_fraction: Real = Field(0.1, gt=0.0, le=0.5)

    def settings(self) -> dict[str, Any]:
        """What the objective is prepared from."""
        return self.model_dump(exclude={"name"})
