"""Lifelong algorithms: known answers, and what each promises."""

import numpy as np
import pytest
import torch

from l2bench.errors import L2benchError, RunFailed, UsageError
from l2bench_agents.algorithms.agem import project
from l2bench_agents.algorithms.packnet import prune


def test_agem_projects_gradients_that_point_against_the_reference():
    reference = torch.tensor([0.0, 2.0, 0.0])
    against = torch.tensor([3.0, -4.0, 1.0])
    assert project(against, reference).tolist() == [3.0, 0.0, 1.0]
    along = torch.tensor([3.0, 0.5, 1.0])
    assert project(along, reference) is along
    torch.manual_seed(0)
    for _ in range(20):
        gradient, reference = torch.randn(7), torch.randn(7)
        found = project(gradient, reference)
        assert torch.dot(found, reference) >= -1e-5
        assert torch.dot(found - gradient, found).abs() < 1e-5  # the nearest such vector


def test_agem_steps_along_the_projected_gradient(school):
    teacher = school()
    agent = teacher.agent(algorithm="agem", hidden=(16,), gripper="none")
    teacher.teach(agent, 0, epochs=10)
    algorithm, learner = agent._algorithm, agent._learner
    seen = []
    learner.step = lambda: seen.append(algorithm._gradient())
    new = algorithm.memory.draw(16, np.random.default_rng(0))
    outputs = learner.policy(new)[:, :, 0].detach()
    new = {**new, "target": 2 * outputs - new["target"]}  # turns the gradient around
    before = algorithm.rng.bit_generator.state
    algorithm.update(new)
    algorithm.rng.bit_generator.state = before
    gradients = []
    for windows in (new, algorithm.memory.draw(64, algorithm.rng)):
        learner.backward(learner.loss(windows))
        gradients.append(algorithm._gradient())
    own, reference = gradients
    assert torch.dot(own, reference) < 0
    expected = own - torch.dot(own, reference) / torch.dot(reference, reference) * reference
    assert torch.allclose(seen[0], expected, atol=1e-6)


def test_the_penalty_of_ewc_is_a_weighted_square(school):
    teacher = school()
    agent = teacher.agent(algorithm="ewc", hidden=(4,))
    ewc, policy = agent._algorithm, agent._learner.policy
    assert ewc.penalty() == 0
    rng = torch.Generator().manual_seed(0)
    distances = {}
    for name, values in policy.named_parameters():
        ewc.importance[name] = torch.rand(values.shape, generator=rng)
        distances[name] = torch.randn(values.shape, generator=rng)
        ewc.anchor[name] = values.detach() - distances[name]
    expected = sum((ewc.importance[n] * d**2).sum() for n, d in distances.items())
    assert ewc.penalty().item() == pytest.approx(expected.item(), rel=1e-5)
    policy.zero_grad()
    ewc.penalty().backward()
    for name, values in policy.named_parameters():
        gradient = 2 * ewc.importance[name] * distances[name]
        assert torch.allclose(values.grad, gradient, rtol=1e-4, atol=1e-6)


def test_importance_is_the_mean_square_gradient_and_decays(school):
    teacher = school()
    agent = teacher.agent(
        algorithm="ewc", hidden=(4,), batch_size=256, ewc={"strength": 0, "decay": 0.5}
    )
    ewc, learner = agent._algorithm, agent._learner
    importance = []
    for task in (0, 1):
        teacher.teach(agent, task, epochs=1)
        importance.append(dict(ewc.importance))
        weights = dict(learner.policy.named_parameters())
        assert all(torch.equal(ewc.anchor[name], values) for name, values in weights.items())
    data = teacher.data(1)
    batch = agent._windows(next(lesson_of(data).windows(1, 256, np.random.default_rng(0))),
                           teacher.context(1))  # fmt: skip
    learner.backward(learner.loss(batch))
    for name, values in learner.policy.named_parameters():
        expected = values.grad.square() + 0.5 * importance[0][name]
        assert torch.allclose(importance[1][name], expected, rtol=1e-3, atol=1e-8)


def lesson_of(data):
    from l2bench.batches import DemonstrationLesson
    from l2bench.suite import Learning

    learning = Learning(source="demonstrations", unit="epochs", amount=1)
    return DemonstrationLesson(data, learning, 0, 1)


def test_ewc_holds_on_to_the_first_task(school):
    errors = {}
    for strength in (0.0, 1e6):
        teacher = school()
        agent = teacher.agent(algorithm="ewc", ewc={"strength": strength}, clip_gradient=1.0)
        for task in (0, 1):
            teacher.teach(agent, task, epochs=20)
        errors[strength] = teacher.error(agent, 0)
    assert errors[1e6] < 0.6 * errors[0.0]


@pytest.mark.parametrize("algorithm", ["replay", "agem", "multitask", "packnet", "single_task"])
def test_the_first_task_is_remembered(school, algorithm):
    teacher = school()
    agent = teacher.agent(algorithm=algorithm, packnet={"epochs": 10, "prune": 0.5})
    for task in (0, 1):
        teacher.teach(agent, task, epochs=30)
    limit = 0.45 if algorithm == "agem" else 0.2
    assert teacher.error(agent, 0) < limit  # fine-tuning ends above 0.5
    assert teacher.error(agent, 1) < 0.3


def test_pruning_frees_exactly_the_smallest_of_a_task_s_weights():
    weights = torch.tensor([[0.5, -0.1, 0.2], [0.01, 0.0, -0.3]])
    owners = torch.tensor([[1, 2, 2], [1, 2, 2]], dtype=torch.uint8)
    prune(weights, owners, 2, 0.5)
    assert owners.tolist() == [[1, 0, 2], [1, 0, 2]]
    assert weights.flatten().tolist() == pytest.approx([0.5, 0, 0.2, 0.01, 0, -0.3])
    zeros, all_new = torch.zeros(8), torch.ones(8, dtype=torch.uint8)
    prune(zeros, all_new, 1, 0.75)
    assert all_new.tolist() == [0] * 6 + [1, 1]  # ties do not free them all


@pytest.mark.parametrize("policy", ["mlp", "rnn"])
def test_packnet_never_changes_what_it_does_in_earlier_tasks(school, policy):
    teacher = school(tasks=3)
    agent = teacher.agent(
        algorithm="packnet", packnet={"epochs": 2, "prune": 0.75}, policy=policy, hidden=(32,),
        rnn={"width": 16, "layers": 2, "text_width": 4}, seq_len=2,
    )  # fmt: skip
    seen = teacher.data(0).observations["observation"][:32]
    acted = {}
    for task in (0, 1, 2):
        teacher.teach(agent, task, epochs=2)
        acted[task] = teacher.act(agent, task, seen)
        for earlier in range(task + 1):
            assert np.array_equal(teacher.act(agent, earlier, seen), acted[earlier])
    assert not np.array_equal(acted[0], acted[2])
    owners = torch.cat([o.flatten() for o in agent._algorithm.owners.values()])
    shares = np.bincount(owners.numpy(), minlength=4) / len(owners)
    assert shares == pytest.approx([0.75**3, 0.25, 0.75 * 0.25, 0.75**2 * 0.25], abs=0.01)
    before = agent.fingerprint()
    teacher.teach(agent, 0, epochs=2)  # a task that returns
    assert agent.fingerprint() == before
    assert np.array_equal(teacher.act(agent, 0, seen), acted[0])


def test_packnet_trains_beyond_the_budget_and_says_so(school):
    teacher = school()
    agent = teacher.agent(algorithm="packnet", packnet={"epochs": 3}, batch_size=64)
    teacher.teach(agent, 0, epochs=2, close=False)
    assert agent.details()["updates"] == 8
    agent.end_task(teacher.context(0))
    assert agent.details()["updates"] == 8 + 3 * 4


def test_single_task_networks_are_what_one_task_alone_gives(school):
    teacher = school()
    both = teacher.agent(algorithm="single_task", gripper="none")
    alone = teacher.agent(algorithm="single_task", gripper="none")
    seen = teacher.data(0).observations["observation"][:8]
    unlearned = teacher.act(both, 1, seen)
    teacher.teach(both, 0, epochs=2)
    teacher.teach(alone, 0, epochs=2)
    first = teacher.act(both, 0, seen)
    assert np.array_equal(first, teacher.act(alone, 0, seen))
    assert np.array_equal(teacher.act(both, 1, seen), unlearned)
    teacher.teach(both, 1, epochs=2)
    assert np.array_equal(teacher.act(both, 0, seen), first)
    assert not np.array_equal(teacher.act(both, 1, seen), unlearned)
    second = teacher.act(both, 1, seen)
    teacher.teach(both, 0, epochs=2)  # goes on where it was
    assert np.array_equal(teacher.act(both, 1, seen), second)
    assert not np.array_equal(teacher.act(both, 0, seen), first)


def test_a_checkpoint_older_than_the_task_selects_the_first_weights(school, tmp_path):
    teacher = school()
    agent = teacher.agent(algorithm="single_task", gripper="none")
    seen = teacher.data(0).observations["observation"][:8]
    teacher.teach(agent, 0, epochs=2)
    agent.save(tmp_path)
    unlearned, first = teacher.act(agent, 1, seen), teacher.act(agent, 0, seen)
    teacher.teach(agent, 1, epochs=2, close=False)
    agent.select(tmp_path)
    assert np.array_equal(teacher.act(agent, 1, seen), unlearned)
    assert np.array_equal(teacher.act(agent, 0, seen), first)


def test_multitask_goes_through_the_union_from_the_first_weights_on(school, monkeypatch):
    teacher = school(tasks=3)
    agent = teacher.agent(algorithm="multitask", batch_size=12)
    batches = []
    update = agent._algorithm.update

    def spy(windows):
        batches.append(windows["task"].sum(dim=0).int().tolist())
        return update(windows)

    monkeypatch.setattr(agent._algorithm, "update", spy)
    for task, expected in ((0, [12, 0, 0]), (1, [6, 6, 0])):
        batches.clear()
        teacher.teach(agent, task, epochs=1)
        assert batches[0] == expected
    batches.clear()
    start = agent._algorithm._first
    teacher.teach(agent, 2, epochs=1, close=False)
    assert {b[2] for b in batches} == {4}
    assert len(batches) == 256 / 4
    drawn = np.sum(batches, axis=0)
    assert drawn[:2].sum() == 2 * 256
    assert drawn[0] == pytest.approx(256, abs=50)
    fresh = teacher.agent(algorithm="multitask", batch_size=12)
    assert all(torch.equal(v, start[n]) for n, v in fresh._learner.policy.state_dict().items())


def test_replay_adds_a_batch_of_memory_beside_each_batch(school, monkeypatch):
    teacher = school()
    agent = teacher.agent(algorithm="replay", batch_size=20, memory_batch=7, memory_count=50)
    batches = []
    update = agent._algorithm.update

    def spy(windows):
        batches.append(windows["task"].sum(dim=0).int().tolist())
        return update(windows)

    monkeypatch.setattr(agent._algorithm, "update", spy)
    for task in (0, 1):
        teacher.teach(agent, task, epochs=1)
    assert batches == [[20, 0]] * 12 + [[16, 0]] + [[7, 20]] * 12 + [[7, 16]]
    assert agent.details()["memory_pairs"] == 100


@pytest.mark.parametrize("algorithm", ["packnet", "single_task"])
def test_weights_of_a_task_s_own_need_to_know_the_task(school, algorithm):
    with pytest.raises(UsageError, match=r"hides which task it is; add task to scenario\.reveal"):
        school(revealed=False).agent(algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ["packnet", "multitask"])
def test_what_needs_boundaries_asks_for_them(school, algorithm):
    teacher = school()
    agent = teacher.agent(algorithm=algorithm)
    with pytest.raises(UsageError, match=r"add boundaries to scenario\.reveal"):
        agent.learn(lesson_of(teacher.data(0)), teacher.context(0))


def test_a_state_is_not_saved_inside_an_epoch(school, tmp_path):
    teacher = school()
    agent = teacher.agent(algorithm="replay")
    lesson = lesson_of(teacher.data(0))
    agent.start_task(teacher.context(0))
    agent._begin_task(lesson, teacher.context(0))
    with pytest.raises(RunFailed, match="between lessons"):
        agent.save(tmp_path)


def test_files_of_finished_tasks_keep_their_bytes(school, tmp_path):
    teacher = school(tasks=3)
    for algorithm in ("replay", "agem", "multitask", "single_task", "packnet", "ewc"):
        agent = teacher.agent(algorithm=algorithm, packnet={"epochs": 1}, memory_part=0.5)
        contents = []
        for number, task in enumerate((0, 1, 2)):
            teacher.teach(agent, task, epochs=2, stop=1, close=False)
            for half in (1, 2):
                folder = tmp_path / f"{algorithm}-{number}-{half}"
                folder.mkdir()
                agent.save(folder)
                contents.append({p.name: p.read_bytes() for p in folder.iterdir()})
                if half == 1:
                    teacher.teach(agent, task, epochs=2, start=1, close=False)
            agent.end_task(teacher.context(task))
        large = {"replay": 3, "agem": 3, "multitask": 3, "single_task": 2, "packnet": 1, "ewc": 2}
        last, before = contents[-1], contents[-2]
        same = [name for name in last if last[name] == before[name] and name != "policy.json"]
        kept = [n for n in same if n.startswith(("memory", "network", "ewc", "owners"))]
        assert len(kept) >= large[algorithm], (algorithm, kept)


def test_prefetching_changes_nothing(school):
    teacher = school()
    prints = []
    for ahead in (0, 1, 3):
        agent = teacher.agent(algorithm="replay", prefetch=ahead)
        for task in (0, 1):
            teacher.teach(agent, task, epochs=2)
        prints.append(agent.fingerprint())
    assert len(set(prints)) == 1


def test_what_gathering_raises_arrives_and_leaving_early_ends_the_thread():
    import threading

    from l2bench_agents.prefetch import prefetched

    def failing():
        yield 1
        raise L2benchError("no more")

    found = prefetched(failing(), 2)
    assert next(found) == 1
    with pytest.raises(L2benchError, match="no more"):
        next(found)
    before = threading.active_count()
    for number in prefetched(iter(range(1000)), 2):
        if number == 5:
            break
    assert threading.active_count() == before
