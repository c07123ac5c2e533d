"""The memory of a training step in closed form, in bytes, and what each layer keeps for backward.

Standard library only, as `shape.py` is. A new kind of layer adds its terms to `saved_by_a_layer`.
Tests compare each term with the tensors that PyTorch saves on a CPU; benchmarks/RESULTS.md compares
the peak of a step with measurements on an H100.

Shapes: N tokens of a piece, D d_model, A width of all heads, F d_ff, H heads, V vocabulary.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fathom.models.options import Normalization, Positions
from fathom.models.parametrization import matrices_of
from fathom.models.shape import OwnCounts, Shape

WEIGHT = 4
"""Bytes of a weight, of its gradient, and of each of AdamW's two moments."""
STATISTIC = 4
"""Bytes of a number that a norm or an attention head keeps for a token."""
INDEX = 8
"""Bytes of an index: of a token, or of an expert."""
TOKEN = 16
"""Bytes of a token of a batch: its id and that of its target."""
MUON_AT_ONCE = 2**24
"""Largest number of weights that Muon orthogonalises at once, unless one matrix has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Settings of a step's computation on which its memory depends."""

    bfloat16: bool = False
    """True with autocast to bfloat16."""
    gpu: bool = False
    recomputes: bool = False
    """True if the activations of a layer are computed again in the backward pass."""
    logit_tokens: int = 2**63
    """Number of tokens whose logits may exist at once."""
    muon: bool = False
    """True if Muon trains the matrices of the blocks, and not AdamW."""
    ranks: int = 1
    """Number of processes of a trial, each with a GPU."""
    shards: bool = False
    """True if each process keeps only its part of the weights."""

    @property
    def number(self) -> int:
        """Bytes of a number in the products."""
        return 2 if self.bfloat16 else 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMemory:
    """Bytes of a training step at its peak, by what they are for."""

    weights: int
    """Weights and the table of rotations."""
    optimizer: int
    gradients: int
    activations: int
    """Tensors that are kept for the backward pass of one piece."""
    working: int
    """Tensors that exist for a moment: logits and their gradients, the gradients inside a layer, or
    the whole weights with which a sharded model is evaluated."""

    @property
    def total(self) -> int:
        """Bytes of everything together."""
        return self.weights + self.optimizer + self.gradients + self.activations + self.working


def step_memory(
    shape: Shape, *, sequences: int, pieces: int = 1, how: Execution = Execution()
) -> StepMemory:
    """Memory, in bytes, of a step whose batch takes `pieces` passes of `sequences` sequences each.

    The peak is at the loss, where all activations exist, or at the end of the backward pass, where
    all gradients exist. With several pieces the gradients of earlier ones exist all along.
    """
    if shape.own_counts:
        return _own_memory(shape, shape.own_counts, sequences, pieces)
    tokens = sequences * shape.context
    params = shape.params_total // how.ranks if how.shards else shape.params_total
    gradients = WEIGHT * params
    buckets = gradients * (how.ranks > 1 and not how.shards)  # of DDP, which stay between steps
    early = buckets + gradients * (pieces > 1)
    saved = saved_activations(shape, sequences, how)
    behind_loss = _kept_of_loss(shape, tokens, how) + _inside_a_layer(shape, tokens, how)
    at_loss = max(_loss(shape, tokens, how), behind_loss)
    at_end = max(_at_end(shape, pieces), _orthogonalised(shape, how))
    if gradients + at_end > saved + at_loss + early:
        saved, working = 0, at_end
    else:
        gradients, working = early, at_loss
    gathered, activations = _gathered(shape, how), saved + TOKEN * tokens * pieces
    if how.shards:  # each rank has all weights while the model is evaluated
        beside = gathered + gradients + activations
        working = max(working, WEIGHT * shape.params_total - beside)
    return StepMemory(
        weights=WEIGHT * params + gathered + _rotations(shape),
        optimizer=2 * WEIGHT * params - WEIGHT * _matrices(shape) * how.muon,
        gradients=gradients,
        activations=activations,
        working=working,
    )


def _own_memory(shape: Shape, counted: OwnCounts, sequences: int, pieces: int) -> StepMemory:
    """Estimated memory, in bytes, of a step of a user's own model in float32, with all logits at
    once."""
    tokens = sequences * shape.context
    return StepMemory(
        weights=WEIGHT * counted.total,
        optimizer=2 * WEIGHT * counted.total,
        gradients=WEIGHT * counted.total,
        activations=sequences * counted.saved_bytes + TOKEN * tokens * pieces,
        working=3 * WEIGHT * tokens * shape.vocab_size,
    )


def saved_activations(shape: Shape, sequences: int, how: Execution) -> int:
    """Bytes that the forward pass of `sequences` sequences keeps for their backward pass."""
    tokens = sequences * shape.context
    if how.recomputes:  # the stream before each layer
        layers = shape.depth * tokens * WEIGHT * shape.d_model
    else:
        attending = shape.depth - shape.state_layers
        layers = attending * _layer(replace(shape, state_space=None), tokens, how)
        layers += shape.state_layers * _layer(shape, tokens, how) + _casts_of_blocks(shape, how)
        layers += shape.cross_layers * tokens * _cross(shape, how)
        layers += shape.expert_layers * tokens * _experts(shape, how)
    head = _cast_of_head(shape, how) if tokens <= how.logit_tokens else 0
    outside = _outside_layers(shape, how, tokens)
    if shape.encoder_depth:
        outside += _memory(shape, how)
    return layers + head + tokens * outside


def saved_by_a_layer(shape: Shape, how: Execution) -> Mapping[str, int]:
    """Bytes per token that each part of a layer keeps for the backward pass, by the part's name."""
    rounded = shape.trained_skips and how.bfloat16
    return {
        "skips": shape.branches_per_block * WEIGHT * shape.d_model * rounded,
        "norms": shape.branches_per_block * _norm(shape, how, fused=is_fused(shape, how)),
        "attention": (_state_space if shape.state_space else _attention)(shape, how),
        "feed_forward": _feed_forward(shape, how),
    }


def is_fused(shape: Shape, how: Execution) -> bool:
    """True if each block is one node of autograd: a plain block that trains in float32 on a CPU."""
    return shape.has_plain_blocks and not (how.bfloat16 or how.gpu)


def _norm(shape: Shape, how: Execution, *, fused: bool = False) -> int:
    """Bytes of a token for a norm: its input, its statistics, and its output in the type that the
    next product reads."""
    rms = shape.norm is Normalization.RMS
    kept = WEIGHT * shape.d_model + STATISTIC * (1 if rms else 2)
    if rms and not (fused or how.gpu):
        kept += WEIGHT * shape.d_model  # the normed input before the gain
    return kept + how.number * shape.d_model


def _attention(shape: Shape, how: Execution) -> int:
    """Bytes of a token for attention: queries, keys, values, the output, and each head's
    log-sum."""
    rotated, keys = shape.d_attention + shape.d_kv, shape.d_kv
    widths, heads = rotated + keys + shape.d_attention, shape.n_heads
    kept = 0
    if shape.qk_norm:  # what the norms read, then one tensor of what they return
        heads += shape.n_heads + shape.kv_heads
        if how.gpu or not how.bfloat16:
            widths += rotated + keys
        if not how.gpu:  # in float32, before the gain; and before the norm, if that was rounded
            kept += WEIGHT * rotated * (2 if how.bfloat16 else 1)
    if shape.smeared_keys:
        widths += rotated + 2 * keys  # the keys before, and all three after the mixing
    if shape.positions is Positions.ROTARY and (how.bfloat16 or how.gpu):
        widths += rotated  # beside what they came from
    return kept + how.number * widths + STATISTIC * heads


def _state_space(shape: Shape, how: Execution) -> int:
    """Bytes of a token for a state-space mixer."""
    assert shape.state_space is not None
    heads = shape.d_attention, shape.n_heads
    exact, rounded = shape.state_space.kept(*heads, context=shape.context)
    return round(WEIGHT * exact + how.number * rounded)


def _cross(shape: Shape, how: Execution) -> int:
    """Bytes of a token for attention to an encoder's output: as many as for self-attention without
    rotations, and a norm."""
    plain = replace(shape, positions=Positions.NONE)
    rounded = WEIGHT * shape.d_model * (shape.trained_skips and how.bfloat16)
    return rounded + _norm(shape, how) + _attention(plain, how)


def _memory(shape: Shape, how: Execution) -> int:
    """Bytes of a token for the encoder's embedding and the norm outside its blocks; its output is
    rounded once for each decoder layer."""
    rank = 2 * how.number * (shape.embedding_rank or 0)
    rounded = how.number * shape.d_model * shape.cross_layers * how.bfloat16
    return _norm(shape, how) + rank + rounded


def _feed_forward(shape: Shape, how: Execution) -> int:
    """Bytes of a token for the hidden layer before and after its activation, and after a gate if it
    has one."""
    return how.number * shape.d_ff * (4 if shape.gated else 2)


def _experts(shape: Shape, how: Execution) -> int:
    """Bytes of a token that experts take beyond one feed-forward network: scores, the inputs and
    outputs of each expert in order, and their weights."""
    if shape.experts is None:
        return 0
    each = how.number * 2 * shape.d_model + 3 * INDEX + 2 * STATISTIC
    scores = shape.experts.number * 2 * STATISTIC
    more = shape.experts.active - 1
    return shape.experts.top_k * each + scores + more * _feed_forward(shape, how)


def _layer(shape: Shape, tokens: int, how: Execution) -> int:
    """Bytes that a layer keeps, including the rotations in bfloat16 that each layer makes for
    itself."""
    rotary = shape.positions is Positions.ROTARY and how.bfloat16 and not shape.state_space
    turns = 2 * shape.context * (shape.d_attention + shape.d_kv) * rotary
    return tokens * sum(saved_by_a_layer(shape, how).values()) + turns


def _casts_of_blocks(shape: Shape, how: Execution) -> int:
    """Bytes of the blocks' matrices in bfloat16, which autocast keeps until the backward pass;
    those in groups are cast again each time they are applied."""
    times = shape.depth // shape.blocks if shape.groups > 1 else 1
    return times * how.number * _matrices(shape) * how.bfloat16


def _cast_of_head(shape: Shape, how: Execution) -> int:
    """Bytes of the head in bfloat16, a copy that a loss in chunks makes for itself."""
    return _vocabulary(shape) * how.number // WEIGHT * how.bfloat16


def _outside_layers(shape: Shape, how: Execution, tokens: int) -> int:
    """Bytes that a token takes outside the blocks: in the embedding, in the last norm and, unless
    the loss is computed in chunks, as the head's input."""
    width = shape.embedding_rank or shape.d_model
    rank = 2 * how.number * (shape.embedding_rank or 0)
    return _norm(shape, how) + rank - how.number * width * (tokens > how.logit_tokens)


def _rotations(shape: Shape) -> int:
    """Bytes of the tables of rotations for queries and keys of every head, in the forward and the
    backward pass."""
    turned = (shape.d_attention + shape.d_kv) * (2 if shape.encoder_depth else 1)
    return 8 * shape.context * turned * (shape.positions is Positions.ROTARY)


def _matrices(shape: Shape) -> int:
    """Number of weights in the matrices of the blocks."""
    groups = shape.parameter_groups
    return groups["attention"] + groups["feed_forward"]


def _orthogonalised(shape: Shape, how: Execution) -> int:
    """Bytes that Muon needs at once for matrices of one size: the momentum a step ahead, the
    normalised momentum, the next iterate, and two small products."""
    if not how.muon:
        return 0
    number, most, groups = 2 if how.gpu else WEIGHT, 0, shape.groups
    counts: Counter[tuple[int, int]] = Counter()
    for parts, columns, weights in matrices_of(shape).values():
        for rows in parts:
            counts[rows // groups, columns // groups] += weights * groups
    for (rows, columns), count in counts.items():
        weights = rows * columns
        at_once = min(count, max(1, MUON_AT_ONCE // weights))
        products = 2 * number * weights + 2 * number * min(rows, columns) ** 2
        most = max(most, at_once * (WEIGHT * weights + products))
    return most


def _gathered(shape: Shape, how: Execution) -> int:
    """Bytes of the whole weights and gradients that a sharded model gathers: embedding and head
    during the whole step, and two blocks at a time with one copy.

    With two processes on a CPU, this gave 7 % less to 20 % more than the measured peak of a step.
    """
    if not how.shards:
        return 0
    attention = shape.parameter_groups["attention"] // (shape.blocks + shape.cross_layers)
    feed_forward = shape.parameter_groups["feed_forward"] // (shape.expert_layers or shape.blocks)
    largest = attention * (2 if shape.cross_layers else 1) + feed_forward
    return WEIGHT * (2 * (shape.params_total - _matrices(shape)) + 5 * largest)


def _vocabulary(shape: Shape) -> int:
    """Bytes of the gradient of an embedding or of the head."""
    return WEIGHT * shape.vocab_size * (shape.embedding_rank or shape.d_model)


def _loss(shape: Shape, tokens: int, how: Execution) -> int:
    """Bytes of the logits and their log-softmax in float32. If all tokens fit at once, the logits
    in the product's type are added; if not, only one chunk counts, with the gradients of logits and
    head."""
    logits = min(tokens, how.logit_tokens) * shape.vocab_size
    rounded = how.number * logits * how.bfloat16
    casts = _casts_of_blocks(shape, how) * how.recomputes  # which autocast keeps all the same
    if tokens <= how.logit_tokens:
        return 2 * WEIGHT * logits + rounded + casts
    of_head = _vocabulary(shape) * how.number // WEIGHT
    of_chunk = max(2 * WEIGHT * logits, WEIGHT * logits + rounded + of_head)
    return of_chunk + casts + _cast_of_head(shape, how) + _kept_of_loss(shape, tokens, how)


def _kept_of_loss(shape: Shape, tokens: int, how: Execution) -> int:
    """Bytes of the gradients of the head's weights and input, which exist before those of any
    layer."""
    width = shape.embedding_rank or shape.d_model
    return _vocabulary(shape) + WEIGHT * width * tokens * (tokens > how.logit_tokens)


def _inside_a_layer(shape: Shape, tokens: int, how: Execution) -> int:
    """Bytes of the gradients between the operations of the last layer, and of its activations if
    they are computed again."""
    D, A, F = shape.d_model, shape.d_attention, shape.d_ff
    again = 0
    if how.recomputes:
        again = _layer(shape, tokens, how) + tokens * _experts(shape, how)
        again += _casts_of_blocks(shape, how) // shape.blocks
    last = shape.state_space and not shape.state_space.at(shape.depth - 1)
    if is_fused(replace(shape, state_space=None) if last else shape, how):
        return again + tokens * WEIGHT * max(F + 3 * D + 7 * A, 2 * F + 2 * D)
    active = shape.experts.active if shape.experts else 1
    return again + tokens * (WEIGHT * D + active * how.number * (F + D))


def _at_end(shape: Shape, pieces: int) -> int:
    """Bytes of the embedding's gradient before it is added to the others; with tied weights and
    several micro-batches, also of the head's."""
    return _vocabulary(shape) * (1 + (shape.tied and pieces > 1))
