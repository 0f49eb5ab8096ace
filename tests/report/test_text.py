"""Words and numbers as readers see them."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l2bench.report.frame import word
from l2bench.report.text import (
    count,
    duration,
    listing,
    number,
    of_seeds,
    ordinal,
    plural,
    printable,
    rate,
    sentence_list,
    short_count,
    shorten,
    visible,
)


def test_right_to_left_override_is_spelled_out():
    assert visible("ab\u202egnp.exe") == "ab[U+202E]gnp.exe"
    assert visible("nul\x00 esc\x1b[31m") == "nul[U+0000] esc[U+001B][31m"
    assert visible("one\ntwo\tthree") == "one two three"


def test_half_a_surrogate_cannot_break_the_encoding():
    assert visible("\ud800") == "[U+D800]"
    assert printable("a\ud800b") == "ab"


@given(st.text(st.characters(exclude_categories=[])))
def test_safe_texts_can_be_encoded_and_hold_nothing_unseen(text):
    for safe in (visible(text), printable(text)):
        safe.encode("utf-8")
        assert not any(c in safe for c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
        assert all(c.isprintable() or unicodedata.category(c) == "Zs" for c in safe)


def test_ordinary_letters_of_every_script_stay():
    text = "naïve Straße 学习 تعلم e\u0301"
    assert visible(text) == text
    assert printable(text) == text


@given(st.text(), st.integers(8, 60))
def test_shortened_texts_fit(text, limit):
    short = shorten(text, limit)
    assert len(short) <= limit
    assert (short == text) == (len(text) <= limit)


def test_shortening_keeps_both_ends():
    short = shorten("put_the_white_mug_on_the_left_plate", 20)
    assert short.startswith("put_the_wh")
    assert short.endswith("plate")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (0.534, "0.53"),
        (-0.12, "\N{MINUS SIGN}0.12"),
        (0.0042, "0.0042"),
        (0.05, "0.05"),
        (12.345, "12.35"),
        (123.45, "123.5"),
        (1234567.0, "1,234,567"),
        (2.5e12, "2.5e+12"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="not a number"):
        number(value)


def test_rates_have_two_decimals_always():
    assert [rate(v) for v in (0.0, 1.0, 0.005, -0.001, -0.5, None)] == [
        "0.00",
        "1.00",
        "0.01",
        "0.00",
        "\N{MINUS SIGN}0.50",
        "\N{EN DASH}",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (59.6, "1 min"),
        (75, "1 min 15 s"),
        (3600, "1 h"),
        (5025, "1 h 23 min"),
        (90061, "1 d 1 h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_small_numbers_are_words():
    assert [word(number) for number in (0, 3, 10, 12)] == ["zero", "three", "ten", "twelve"]
    assert (word(13), word(12000)) == ("13", "12,000")


def test_counts_and_lists():
    assert count(1234567) == "1,234,567"
    assert [short_count(v) for v in (0, 999, 1500, 20000, 2_000_000)] == [
        "0",
        "999",
        "1.5k",
        "20k",
        "2M",
    ]
    assert plural(1, "lifetime") == "1 lifetime"
    assert plural(1000, "lifetime") == "1,000 lifetimes"
    assert listing(range(3)) == "0, 1, 2"
    assert listing(range(20), 2) == "0, 1 and 18 more"
    assert of_seeds([4]) == "seed 4"
    assert of_seeds([4, 5]) == "seeds 4, 5"
    assert sentence_list(["a", "b", "c"]) == "a, b and c"
    assert sentence_list([]) == ""
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "11th",
        "12th",
        "13th",
        "21st",
        "112th",
    ]
