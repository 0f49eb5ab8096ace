"""Reading logs: order, regimes, and what is refused with row and column."""

import numpy as np
import pyarrow as pa
import pytest
from metrics.builders import table

from l2bench.errors import Unsupported
from l2bench.metrics.l2m_log import read_expert, read_log

BLOCKS = ("E", "a", [1, 2]), ("E", "b", [3]), ("L", "a", [4, 5]), ("E", "a", [6])


def changed(column, row, value):
    data = table(*BLOCKS)
    full = {
        "block_subtype": ["wake"] * 6,
        "exp_status": ["complete"] * 6,
        "worker_id": ["0"] * 6,
        "task_params": ["{}"] * 6,
    }
    data.update({name: list(values) for name, values in full.items()})
    data[column] = list(data[column])
    data[column][row] = value
    return data


def test_regimes_and_tasks():
    log = read_log(table(*BLOCKS))
    assert log.tasks == ("a_1", "b_1")
    assert log.start.tolist() == [0, 2, 3, 5]
    assert log.stop.tolist() == [2, 3, 5, 6]
    assert log.task.tolist() == [0, 1, 0, 0]
    assert log.learning.tolist() == [False, False, True, False]
    assert log.row_task.tolist() == [0, 0, 1, 0, 0, 0]


def test_learned_tasks_come_first():
    log = read_log(table(("E", "z", [1]), ("L", "b", [1]), ("L", "a", [1]), ("E", "c", [1])))
    assert log.tasks == ("b_1", "a_1", "z_1", "c_1")


def test_arrow_tables_and_dictionaries_are_read_alike():
    data = table(*BLOCKS)
    plain = pa.table(data)
    coded = plain.set_column(
        plain.column_names.index("task_name"),
        "task_name",
        plain["task_name"].dictionary_encode(),
    )
    chunked = pa.concat_tables([coded.slice(0, 2), coded.slice(2)])
    reference = read_log(data)
    for form in (plain, coded, chunked):
        log = read_log(form)
        assert log.tasks == reference.tasks
        assert log.value.tolist() == reference.value.tolist()
        assert log.task.tolist() == reference.task.tolist()


def test_names_are_lowered_and_rows_put_in_order():
    data = table(*BLOCKS)
    data["task_name"] = np.char.upper(data["task_name"])
    turned = {name: values[::-1] for name, values in data.items()}
    assert read_log(turned).value.tolist() == [1, 2, 3, 4, 5, 6]
    assert read_log(turned).tasks == ("a_1", "b_1")


def test_variants_can_be_merged():
    data = table(*BLOCKS)
    data["task_name"] = np.array(["nav_1", "nav_2", "push_1", "nav_2", "nav_1", "nav_1"])
    log = read_log(data, variants="agnostic")
    assert log.tasks == ("nav", "push")
    assert log.start.tolist() == [0, 2, 3, 5]


def test_names_without_variant_are_a_warning():
    data = table(*BLOCKS)
    data["task_name"] = np.array(["a", "a", "b_1", "a", "a", "a"])
    assert read_log(data).warnings == ("the log: no variant part in task names a",)


@pytest.mark.parametrize(
    ("column", "row", "value", "text"),
    [
        ("block_num", 2, -1, "row 2, column block_num: -1 is negative"),
        ("exp_num", 4, -5, "row 4, column exp_num: -5 is negative"),
        ("block_num", 3, 2.5, "row 3, column block_num: 2.5 is not a whole number"),
        ("block_num", 3, float("nan"), "row 3, column block_num: nan is not a whole number"),
        ("block_num", 3, 9, "row 4, column block_num: block 1 at experience 4 follows block 9"),
        ("block_type", 1, "exam", "row 1, column block_type: 'exam' is neither train nor test"),
        ("block_type", 1, None, "row 1, column block_type: None is neither train nor test"),
        ("block_subtype", 5, "nap", "row 5, column block_subtype: 'nap' is neither sleep nor wake"),
        ("exp_status", 0, "done", "row 0, column exp_status: 'done' is neither complete nor"),
        ("worker_id", 3, "a/b", "row 3, column worker_id: 'a/b' has characters other than"),
        ("task_params", 2, "{x}", "row 2, column task_params: '{x}' is not JSON"),
        ("task_params", 2, "[" * 100_000, "row 2, column task_params"),
        ("task_name", 2, "", "row 2, column task_name: no name"),
        ("performance", 4, float("inf"), "row 4, column performance: an infinite value"),
        ("performance", 4, "good", "column performance does not hold numbers"),
    ],
)
def test_malformed_rows_are_named(column, row, value, text):
    with pytest.raises(Unsupported) as caught:
        read_log(changed(column, row, value))
    assert text in str(caught.value)


def test_missing_columns_and_measures():
    data = table(*BLOCKS)
    with pytest.raises(Unsupported, match="column exp_num is missing"):
        read_log({name: values for name, values in data.items() if name != "exp_num"})
    with pytest.raises(Unsupported, match=r"column reward \(the measure\) is missing"):
        read_log(data, measure="reward")
    with pytest.raises(Unsupported, match=r"is not declared.*declared are reward"):
        read_log(data, declared=["reward"])
    with pytest.raises(Unsupported, match="column performance has 5 rows, exp_num has 6"):
        read_log({**data, "performance": data["performance"][:5]})


def test_nothing_left_is_an_error():
    data = table(*BLOCKS)
    data["performance"][:] = np.nan
    with pytest.raises(Unsupported, match="no complete row with a value of performance in 6 rows"):
        read_log(data, name="run.tsv")
    with pytest.raises(Unsupported):
        read_log({name: values[:0] for name, values in data.items()})


def test_an_expert_learns_one_task_and_keeps_its_learning_rows():
    expert = read_expert(
        table(("E", "b", [9]), ("L", "a", [1, 2]), ("E", "a", [8]), ("L", "a", [3]))
    )
    assert expert.value.tolist() == [1, 2, 3]
    assert expert.start.tolist() == [0, 2]
    with pytest.raises(Unsupported, match="learns exactly one task; found a_1, b_1"):
        read_expert(table(("L", "a", [1]), ("L", "b", [1])))
    with pytest.raises(Unsupported, match="learns exactly one task; found none"):
        read_expert(table(("E", "a", [1])))
