"""Classes of sizes."""

import pytest

from fathom.models.shape import Count
from fathom.search.tables.grouped.sizes import runs_near, size_classes, sized_shape
from tests.support.curves import run


def test_classes_are_disjoint_close_in_size_and_have_shapes_to_compare() -> None:
    sizes = {4: 100, 8: 110, 16: 120, 32: 200, 2: 400, 3: 410, 5: 450, 6: 460}
    runs = [run(depth, params=1000 * size) for depth, size in sizes.items()]
    classes = size_classes(runs, "total", 0.15)
    depths = [[member.depth for member in members] for members in classes]
    assert depths == [[4, 8, 16], [2, 3, 5, 6]]
    assert [near.depth for near in runs_near(runs, 105e3, "total", 0.06)] == [4, 8]


@pytest.mark.parametrize(("count", "inner"), [(Count.TOTAL, 990), (Count.NON_EMBEDDING, 1090)])
def test_a_shape_has_the_size_asked_for_and_the_embedding_counted(count: Count, inner: int) -> None:
    shape = sized_shape(run(4, params=1000), 1090, count)
    assert (shape.size(count), shape.params_non_embedding) == (1090, inner)
