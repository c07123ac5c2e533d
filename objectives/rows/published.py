"""Published data sets by name: each file with its address and checksum."""

from collections.abc import Mapping

from fathom.objectives.files.download import Download

GITHUB = "https://raw.githubusercontent.com"
COGS = f"{GITHUB}/najoungkim/COGS/165a7b669eade971fa47bf568a2e51925360fed8/data"
RECOGS = f"{GITHUB}/frankaging/ReCOGS/1b6eca8ff4dca5fd2fb284a7d470998af5083beb/variable_free"
PASSIV = (
    f"{GITHUB}/sebschu/multilingual-transformations/"
    "e848833f2df7674022ef02e2b649482d23ade7a7/data/passiv_en_nps"
)
MULTI30K = f"{GITHUB}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
AUTSHUMATO = (
    f"{GITHUB}/LauraMartinus/ukuxhumana/211265e37dc2545caf8fba32e6e5f6e5318a9993/clean/en_nso"
)
SPINN = f"{GITHUB}/nyu-mll/spinn/0e24a35c7be00e9f67814b0c846c3095cfe7632b/python/spinn/data/listops"


def _files(pattern: str, folder: str, **checksums: str) -> dict[str, Download]:
    """Files by name, from a pattern of their addresses and the checksum of each."""
    urls = {name: pattern.format(name) for name in checksums}
    return {
        name: Download(url=url, sha256=checksums[name], path=f"{folder}/{url.rpartition('/')[2]}")
        for name, url in urls.items()
    }


TRANSDUCTION: Mapping[str, Mapping[str, Download]] = {
    "cogs": _files(
        f"{COGS}/{{}}.tsv",
        "cogs",
        train="220b3804b562c0156ee986eff1bdd15c27e52142549362a64f57baf86e304c78",
        dev="ab66388a309c7ac1ad210c781a6a0ce12281a9ef24619a12422a752cef61bc21",
        test="68f8e51e9f6d9cd22d64efe68dd21d7ea5ba327e9a2359481030161aea757035",
        gen="d013d9eee0bafc153f8decc85f42814ac97260f84964d980e1e2b84577b82361",
    ),
    "cogs_vf": _files(
        f"{RECOGS}/{{}}.tsv",
        "cogs_vf",
        train="0d8429b2db4c9fd216ce2a80ca6ee20861f331f9d4ce6086b565dcbde7c2791d",
        dev="8fe6a76e2a3b0ebf26aff1e899076956c16f87396374a729dad439669b05b429",
        test="b312353b6f40fcd870dc2c75b70da8ea25bf32134884e9da2c9c98306e17b9d1",
        gen="ce0be5c1e70139301b7cc77e6b94e7b23af0ae3db921ce935d2524fe68070159",
    ),
    "passivization": _files(
        f"{PASSIV}/passiv_en_nps.{{}}",
        "passiv_en_nps",
        train="45ade8e0bea11b064c709a65bc9f195a9719751e9f7a67e349a75a49d3e9936a",
        dev="e2024b0c6030957df2049329d42e9fc3dce8d8c9d0d7bca22a0940b19c747db7",
        test="3d51ce92e274c4745eab84ba4f21391f8a6f88fcf2ab63d14ec765455f5bf4d9",
        gen="f3bae2fa6349038179828515be30eb8778e6de0a93ae443c0b4c220ecd71c902",
    ),
}

LISTOPS = {
    f"listops_{name}": file
    for name, file in _files(
        f"{SPINN}/test_{{}}.tsv",
        "listops",
        d20s="71335416e6896e8dd8dc69281c8ed9b37316382d05d3705d660461564e843840",
        d14="f8ac731a421911d214835ace5c9ec6850c41c133aeffa3a7cd55e7b0e3ad7ab7",
        d8="881061477e62e9941332825bf417e25a13de50a38bf74a893e23f4ef05b18087",
        d5f="1fc3f37bbf47f0608abca61c94c2529fbf451d1d2cba10586a0b7092519090f3",
    ).items()
}
"""Published test files of ListOps; its training files are not published with known checksums."""

_MULTI30K = _files(
    f"{MULTI30K}/{{}}.gz",
    "multi30k",
    **{
        "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
        "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
        "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    },
)
_AUTSHUMATO = _files(
    f"{AUTSHUMATO}/ennso_parallel.{{}}",
    "autshumato",
    **{
        "train.en": "fc973af0fc35c571c606140471c0aae8c34d8dd4a26717064879be99f3eb726f",
        "train.nso": "98b688bff7a0c381b226a172a604ab6c1719c0783eb3eb76a2e03b7d9212a871",
        "dev.en": "90aaadaa281c232aba7a9c5875c3acdf638d5f631aad5a27e37d34531baffe70",
        "dev.nso": "bce6e11e531ced887d473ee2b0c57349181d8c4adc0753898684f33adf40a6ff",
        "test.en": "55154612507f32939ff2d5bd5438e5e980a3dcdd7aac80c42ff2ac30f9890380",
        "test.nso": "e833f67af691277e5dc9c9ec111d74119846c1438c80034c6df3c7eeae03d414",
    },
)


def _parallel(
    files: Mapping[str, Download], target: str, **names: str
) -> dict[str, tuple[Download, Download]]:
    """Source file, in English, and target file of each split."""
    return {
        split: (files[f"{name}.en"], files[f"{name}.{target}"]) for split, name in names.items()
    }


_FLICKR = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
TRANSLATION: Mapping[str, Mapping[str, tuple[Download, Download]]] = {
    "multi30k_en_de": _parallel(_MULTI30K, "de", **_FLICKR),
    "multi30k_en_fr": _parallel(_MULTI30K, "fr", **_FLICKR),
    "autshumato_en_nso": _parallel(_AUTSHUMATO, "nso", train="train", dev="dev", test="test"),
}
"""Translations from English to German and French (image descriptions), and to Sepedi (government
documents)."""
