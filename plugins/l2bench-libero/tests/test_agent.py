"""The scripted agent: the ceiling, from the compact state alone; it learns nothing."""

import json

import numpy as np
import pytest

from l2bench.agent import Acting, AgentSettings, Life, TaskContext
from l2bench.errors import UsageError
from l2bench.suite import Learning, Task
from l2bench.testing import check_agent
from l2bench_libero import agent, experts, tasks
from l2bench_libero.agent import Plan, Scripted, plan
from l2bench_libero.environment import Object

SOUP = tasks.find("libero_object", 0)


def context(sentence=SOUP.instruction, **settings):
    task = Task(id="soup", environment="libero/x", task=SOUP.name, settings=settings)
    return TaskContext(Object().spaces(task), 0, "soup", sentence)


def test_there_is_a_script_for_each_task_with_an_expert_and_one_condition():
    known = set(agent._records())
    for suite in tasks.SUITES:
        for index in experts.supported(suite):
            many = suite == "libero_10"
            assert (tasks.find(suite, index).id in known) != many


def test_a_sentence_that_names_two_tasks_names_one_way_to_do_them():
    for ids in agent._plans().values():
        assert len({json.dumps(agent._records()[id]) for id in ids}) == 1


@pytest.mark.parametrize(
    "sentence",
    [
        SOUP.instruction,
        SOUP.prompt,
        SOUP.prompt.upper(),
        "grab alphabet soup and put it into basket",
    ],
)
def test_a_task_is_known_by_its_sentences(sentence):
    assert isinstance(plan(context(sentence)), Plan)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (context("dance"), "has no script for task 'soup' ('dance')"),
        (context(None), "does not reveal; add language to scenario.reveal"),
        (context(observation="pixels"), "compact state, which task 'soup' does not show"),
    ],
)
def test_what_it_cannot_do_is_refused_at_birth(given, words):
    with pytest.raises(UsageError) as caught:
        Scripted(AgentSettings(), Life((given,), 0))
    assert words in str(caught.value)


def state(eef, item, goal, fingers=(0.04, -0.04), velocities=(0.0, 0.0)):
    eef, item, goal = (np.array(x, float) for x in (eef, item, goal))
    parts = (eef, np.array(fingers) * 10, velocities, item - eef, goal - eef, goal - item, item[2:])
    return np.concatenate(parts).astype(np.float32)


def test_actions_of_worked_states():
    record = agent._records()[SOUP.id]
    doing, item, goal = Plan(record), [0.1, -0.1, 0.05], [0.0, 0.25, 0.1]
    far = doing.act(state([-0.2, -0.1, 0.3], item, goal))
    assert far[0] == 1.0
    assert far[6] == -1.0
    assert abs(far[1]) < 0.01
    height = item[2] + record["high"] - record["grasp"]["depth"]
    assert doing.act(state([*item[:2], height], item, goal))[6] == 1.0
    above = [goal[0], goal[1], goal[2] + 0.1]
    let_go = doing.act(state(above, above, goal, fingers=(0.02, -0.02)))
    assert let_go.tolist() == [0, 0, 0, 0, 0, 0, -1]
    assert let_go.dtype == np.float32


def test_a_batch_is_answered_row_by_row():
    given = context()
    rows = np.stack([state([x, 0, 0.3], [0.1, 0, 0.05], [0, 0.25, 0.1]) for x in (-0.2, 0.0, 0.2)])
    acting = Acting(given, np.arange(3), np.ones(3, bool), [])
    actions = Scripted(AgentSettings(), Life((given,), 0)).act({"state": rows}, acting)
    assert actions.shape == (3, 7)
    assert np.array_equal(actions[1], plan(given).act(rows[1]))


@pytest.mark.sim
@pytest.mark.parametrize(("suite", "index"), [("libero_object", 6), ("libero_spatial", 0)])
def test_it_succeeds_from_evaluation_states(simulators, suite, index):
    env = simulators(suite, index)
    doing = plan(TaskContext(Object().spaces(context_task()), language=env.task.instruction))
    for k in range(2):
        observation, _ = env.reset(seed=k, options={"initial_state": k})
        done = False
        for _ in range(150):
            observation, _, done, _, _ = env.step(doing.act(observation["state"]))
            if done:
                break
        assert done


def context_task():
    return Task(id="x", environment="libero/x", task=SOUP.name)


@pytest.mark.sim
def test_it_keeps_the_contract_of_an_agent():
    learning = Learning(source="interaction", unit="steps", amount=30)
    task = Task(
        id="soup",
        environment="libero/libero_object",
        task=SOUP.name,
        horizon=12,
        learning=learning,
        language=SOUP.instruction,
    )
    check_agent(Scripted, Object(), task)
