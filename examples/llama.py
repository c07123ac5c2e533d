"""A Hugging Face Llama as the model of a study: from a shape to a causal LM.

The study beside it, `llama.yaml`, names the function by its place; from the folder that holds
`examples`, with `pip install transformers`:

    fathom run examples/llama.yaml
"""

from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


def build(
    *, depth: int, d_model: int, d_ff: int, n_heads: int, vocab_size: int, context: int
) -> nn.Module:
    """A Llama of these sizes; what it returns has `logits`, which is all that Fathom reads."""
    return LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=depth,
            hidden_size=d_model,
            intermediate_size=d_ff,
            num_attention_heads=n_heads,
            num_key_value_heads=n_heads,
            vocab_size=vocab_size,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )
