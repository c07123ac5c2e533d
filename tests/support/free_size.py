"""Studies of size and depth at equal operations and at equal seconds, and the surface that their
trials follow."""

from benchmarks.worlds.surfaces import PlantedSurface
from fathom.search.study.file.study_file import dump, parse

FLOPS = 10**11
FREE_SIZE = parse(
    "study: free\nobjective: {name: language, context: 32}\ncount: train_flops\nbudgets: [100B]\n"
    "space: {params: [20k, 200k], depth: [1, 6], head_dim: 8}\ntrials: 18\n"
    "train: {batch_size: 8, evaluations: 6}\n"
)
FREE_SIZE_SECONDS = parse(
    dump(FREE_SIZE).replace("train_flops", "train_seconds").replace("- 100000000000", "- 20s")
)
SURFACE = PlantedSurface(size=60_000, depth=3, by_size=0.06, by_depth=0.08, noise=0.002)
