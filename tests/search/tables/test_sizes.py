"""Classes of sizes."""

from fathom.search.tables.sizes import runs_near, size_classes
from tests.support.curves import run


def test_classes_are_disjoint_close_in_size_and_have_shapes_to_compare() -> None:
    sizes = {4: 100, 8: 110, 16: 120, 32: 200, 2: 400, 3: 410, 5: 450, 6: 460}
    runs = [run(depth, params=1000 * size) for depth, size in sizes.items()]
    classes = size_classes(runs, "total", 0.15)
    assert [[one.depth for one in some] for some in classes] == [[4, 8, 16], [2, 3, 5, 6]]
    assert [one.depth for one in runs_near(runs, 105e3, "total", 0.06)] == [4, 8]
