"""How long fuzzing takes: seconds here, as long as one likes with DJQUEUE_FUZZ_EXAMPLES=20000."""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("DJQUEUE_FUZZ_EXAMPLES", "150"))

fuzzed = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
with_database = settings(fuzzed, max_examples=max(1, EXAMPLES // 3))

ANY_TEXT = st.text(st.characters(exclude_categories=[]))
"""Lone surrogates, NUL and unassigned characters too."""
PLAIN_NUMBERS = st.integers() | st.sampled_from([2**31, 2**63, 10**400]) | st.floats()
NUMBERS = st.integers() | st.integers(300, 5000).map(lambda digits: 10**digits) | st.floats()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
"""What JSON can say and jsonb can keep, but for NUL and surrogates."""


def of_words(*words: str, more: str = "") -> st.SearchStrategy[str]:
    """Text made of these words and characters: nearer to what is understood than text of chance."""
    return st.lists(st.sampled_from([*words, *more]) | ANY_TEXT, max_size=8).map("".join)
