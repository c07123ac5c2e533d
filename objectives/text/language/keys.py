"""Keys of `objective: language`."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from fathom.objectives.keys import Number, ObjectiveConfig, Positive, Real
from fathom.objectives.text.tokenizer import count_ids


class LanguageConfig(ObjectiveConfig):
    """Next-token prediction on text."""

    batched: ClassVar[bool] = True
    name: Literal["language"]
    corpus: str = Field("stdlib", max_length=4096, examples=["stdlib", "path/to/text"])
    """`stdlib`, a known name such as `tiny_shakespeare`, or a path: file, folder or glob."""
    tokenizer: str = Field(
        "bytes",
        pattern=r"^(bytes|chars|bpe:[0-9]{1,9})$",
        description="`bytes`, `chars` or `bpe:N`, for example bpe:1024",
        examples=["bytes", "chars", "bpe:1024"],
    )
    """`bytes`, `chars` or `bpe:N` with N token ids."""
    context: Positive = 256
    """Tokens in a training sequence."""
    eval_tokens: Number = 131_072
    """Held-out tokens in an evaluation."""
    validation_fraction: Real = Field(0.1, gt=0.0, le=0.5)
    """Fraction of the text that is held out."""

    def vocab_size(self) -> int:
        """Number of token ids; reads the corpus for `chars` alone."""
        return count_ids(
            corpus=self.corpus,
            tokenizer=self.tokenizer,
            validation_fraction=self.validation_fraction,
        )

    @property
    def evaluation_tokens(self) -> int:
        """Tokens of an evaluation."""
        return self.eval_tokens

    def for_probe(self, *, context: int, eval_tokens: int) -> Self:
        """The keys with shorter sequences, and fewer of them in an evaluation."""
        context = min(context, self.context)
        eval_tokens = max(context, min(eval_tokens, self.eval_tokens))
        return self.model_copy(update={"context": context, "eval_tokens": eval_tokens})
