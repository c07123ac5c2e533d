"""Published data sets by name: each file with its address and checksum."""

from collections.abc import Mapping

from fathom.objectives.download import Download

GITHUB = "https://raw.githubusercontent.com"
COGS = f"{GITHUB}/najoungkim/COGS/165a7b669eade971fa47bf568a2e51925360fed8/data"
RECOGS = f"{GITHUB}/frankaging/ReCOGS/1b6eca8ff4dca5fd2fb284a7d470998af5083beb/variable_free"
PASSIV = (
    f"{GITHUB}/sebschu/multilingual-transformations/"
    "e848833f2df7674022ef02e2b649482d23ade7a7/data/passiv_en_nps"
)
SPINN = f"{GITHUB}/nyu-mll/spinn/0e24a35c7be00e9f67814b0c846c3095cfe7632b/python/spinn/data/listops"


def _files(pattern: str, folder: str, **checksums: str) -> dict[str, Download]:
    """Name -> file, from a pattern of the addresses and the checksum of each."""
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
"""Test files only: the training files are not among those published with known checksums."""
