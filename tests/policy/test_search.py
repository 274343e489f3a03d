"""R20: what people type finds jobs, or says what was expected."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.search import Search, SearchInvalid, Tab, parse, token

ID = UUID("01939d5c-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Search()),
        ("  \t ", Search()),
        (str(ID), Search(id=ID)),
        (f"id:{ID}", Search(id=ID)),
        ("queue:emails state:dead", Search(queue="emails", tab=Tab.DEAD)),
        ("state:leased", Search(tab=Tab.RUNNING)),
        ("tenant:acme tag:slow", Search(tenant="acme", tag="slow")),
        ("task:send_receipt", Search(tasks=(r"send\_receipt", r"%.send\_receipt"))),
        ("task:shop.*", Search(tasks=("shop.%", "%.shop.%"))),
        ("key:receipt:*", Search(key="receipt:%")),
        ("key:100%", Search(key=r"100\%")),
        ('error:"no answer"', Search(error="no answer")),
        ('"no answer"', Search(words=("no answer",))),
        ('"queue:emails"', Search(words=("queue:emails",))),
        (r'tag:"a \"b\" \\c"', Search(tag=r'a "b" \c')),
        ("receipt order", Search(words=("receipt", "order"))),
        ("older:10m", Search(older_seconds=600.0)),
        ("older:1h30m", Search(older_seconds=5_400.0)),
        ("older:0.5s", Search(older_seconds=0.5)),
        ("subject:shop.order:7", Search(subject="shop.order:7")),
        (f"parent:{ID}", Search(parent=ID)),
        ("cause:abc", Search(cause="abc")),
        ("args.0:x", Search(args='$ ? ((@."args"[0] == "x"))')),
        ("args.name:7", Search(args='$ ? ((@."kwargs"."name" == "7" || @."kwargs"."name" == 7))')),
        ("args.kwargs.a.b:true", Search(args='$ ? ((@."kwargs"."a"."b" == "true" || @."kwargs"."a"."b" == true))')),
        ("args.0:a* args.1:b", Search(args='$ ? ((@."args"[0] starts with "a") && (@."args"[1] == "b"))')),
    ],
)
def test_a_text_means_one_search(text: str, wanted: Search) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queu:emails", "Did you mean queue:?"),
        ("foo:bar", "Expected one of id: task: queue:"),
        ("queue:", "expected a value right behind the colon"),
        ("id:7", "expected a job's id (a UUID), got '7'"),
        ("state:gone", "expected one of ready, running"),
        ("older:soon", "expected a duration like 30s"),
        ("older:10", "expected a duration like 30s"),
        ("older:999999999w", "expected a duration like 30s"),
        ("queue:a queue:b", "expected once, got it twice"),
        ('tag:"a', "Expected a closing quotation mark"),
        ("args.a..b:7", "expected a path of 1 to 16"),
        ("args.a:", "expected a value right behind the colon"),
        ("tag:a\0b", "without NUL"),
        ("tag:\ud800", "lone surrogate"),
        ("a " * 9, "at most 8 words"),
        ("x" * 2_001, "at most 2,000 characters, got 2,001"),
    ],
)
def test_what_means_nothing_is_refused_with_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(SearchInvalid) as refused:
        parse(text)

    assert said in str(refused.value)


@given(st.text())
def test_any_text_is_a_search_or_refused_in_words(text: str) -> None:
    try:
        found = parse(text)
    except SearchInvalid as fault:
        assert str(fault).endswith((".", "?"))
    else:
        assert isinstance(found, Search)


pieces = st.sampled_from(
    ["queue:", "task:", "state:", "args.", "args.0:", "older:", '"', "\\", " ", "*", ":", ".", "dead", "7", "é", "\0"]
)


@given(st.lists(pieces, max_size=20))
def test_any_mixture_of_the_syntax_is_a_search_or_refused_in_words(parts: list[str]) -> None:
    test_any_text_is_a_search_or_refused_in_words.hypothesis.inner_test("".join(parts))  # type: ignore[attr-defined]


storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=80)


@given(storable)
def test_a_value_written_as_a_token_is_read_back(value: str) -> None:
    assert parse(token("tenant", value)) == Search(tenant=value)
    assert parse(f"{token('tag', value)} {token('tenant', value)}") == Search(tag=value, tenant=value)
