"""What the headline metrics mean, one sentence each, for readers of reports."""

from __future__ import annotations

_BEFORE_AFTER = "its performance after and before, (after - before) / (after + before)"
_RATIO = "its scaled performance after, divided by that before"

#: Sentences by id; other metrics have none.
MEANINGS = {
    "libero.FWT": "How fast and how well tasks are learned: the mean of each task's own learning "
    "curve, held at its best from there on; no other task enters it.",
    "libero.NBT": "How much is forgotten: the performance that a task loses, on average, while "
    "later tasks are learned; below 0 later learning helped it.",
    "libero.AUC": "Performance over the whole lifetime: the mean of a task's learning curve and "
    "its evaluations after each later task.",
    "l2m.performance_maintenance": "How much is kept: later evaluations of a task minus the one "
    "right after it was learned; below 0 something was forgotten.",
    "l2m.forward_transfer_contrast": "What learning one task does for another that is still to be "
    f"learned: {_BEFORE_AFTER}; above 0 it helped.",
    "l2m.backward_transfer_contrast": "What learning one task does to another that was learned "
    f"before it: {_BEFORE_AFTER}; below 0 it harmed.",
    "l2metrics.performance_maintenance": "How much is kept, on performance scaled to 1 to 101: "
    "later evaluations of a task minus the one after it was learned; below 0 something was "
    "forgotten.",
    "l2metrics.forward_transfer_ratio": "What learning one task does for another that is still to "
    f"be learned: {_RATIO}; above 1 it helped.",
    "l2metrics.backward_transfer_ratio": "What learning one task does to another that was learned "
    f"before it: {_RATIO}; below 1 it harmed.",
    "gem.ACC": "How much is known at the end: the performance after the last task, averaged over "
    "all tasks.",
    "gem.BWT": "What later learning did to earlier tasks: performance at the end minus that right "
    "after the task was learned; below 0 something was forgotten.",
    "gem.FWT": "What earlier learning gives to a task before it is learned itself: performance "
    "just before minus that of the untrained agent.",
    "gem.forgetting": "How much is forgotten by the end: the best earlier performance on a task "
    "minus that after the last task; below 0 it is better than ever at the end.",
    "cw.performance": "How much is known at the end: the performance on each task when the last "
    "one has been learned, averaged over all tasks.",
    "cw.forgetting": "How much is forgotten by the end: performance when a task has been learned "
    "minus that when the last one has been; below 0 later learning helped it.",
    "cw.forward_transfer": "How much better a task is learned than by an agent that learns nothing "
    "else: the gain in the mean of its learning curve, as a share of the room for it.",
    "kemker.omega_base": "How well the first session is kept: accuracy on it after each later "
    "session, divided by that of an offline learner.",
    "kemker.omega_new": "How well new sessions are learned: accuracy on each right after it.",
    "kemker.omega_all": "How much of everything so far is known: accuracy on all test items so "
    "far, divided by an offline learner's on those of the first session.",
}

#: To be said wherever a metric is shown that rewards keeping what was learned.
NEVER_LEARNED = "What was never learned cannot be forgotten"

_KEEPING = ("forgetting", "backward transfer", "maintenance")


def about_keeping(name: str) -> bool:
    """Return whether a metric of this name says how much of what was learned is kept."""
    return any(words in name for words in _KEEPING)
