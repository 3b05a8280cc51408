"""Two builds side by side in a Cluster: the earlier one neither says nor reads which node sends."""

from statistics import median

import pytest

from tests.faults.test_builds import SAME, assert_turns, build

# A client that missed a grant would find it with its next proof of life, 2 s later.
SOON_SECONDS = 0.5

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("faces", [("threads", "asyncio"), ("asyncio", "threads")])
def test_they_take_turns_and_miss_no_grant(each_kind, tmp_path, faces):
    earlier = build(SAME, tmp_path)
    assert median(assert_turns(each_kind, earlier, tmp_path / "turns", faces)) < SOON_SECONDS
