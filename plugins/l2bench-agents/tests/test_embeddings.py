"""What tells a network its task."""

import json

import numpy as np
import pytest
import torch

from l2bench.agent import TaskContext
from l2bench.environment import Spaces
from l2bench.errors import Unsupported, UsageError
from l2bench_agents.embeddings import make_embedding
from l2bench_agents.settings import EmbeddingSettings

TEXTS = ("put the milk in the basket", "put the soup in the basket", "turn on the stove")
WORDS = sorted({word for text in TEXTS for word in text.split()})


def contexts(texts=TEXTS, told=True):
    return tuple(
        TaskContext(Spaces(None, None), n if told else None, f"task_{n}", text)
        for n, text in enumerate(texts)
    )


def embedding(kind, tasks=None, **settings):
    return make_embedding(EmbeddingSettings(kind=kind, **settings), tasks or contexts())


def alike(one, other):
    return float(torch.dot(one, other) / one.norm() / other.norm())


def test_positions_are_one_hot_and_nothing_where_they_are_hidden():
    found = embedding("one_hot")
    assert [found.vector(task).tolist() for task in contexts()] == np.eye(3).tolist()
    assert embedding("one_hot", contexts(told=False)).width == 0
    assert embedding("none").vector(contexts()[0]).shape == (0,)


def test_hashed_words_are_alike_where_instructions_are():
    found = embedding("hashed_words", width=512)
    milk, soup, stove = (found.vector(task) for task in contexts())
    assert alike(milk, soup) > 0.5 > 0.35 > alike(milk, stove)
    assert float(milk.square().mean()) == pytest.approx(1)


def test_hashed_words_never_change():
    found = embedding("hashed_words", width=12).vector(contexts()[2])
    signs = "".join("+" if value > 0 else "-" if value < 0 else "0" for value in found)
    assert signs == "--+++++---++"
    assert torch.equal(found, embedding("hashed_words", width=12).vector(contexts()[2]))


@pytest.mark.parametrize("kind", ["hashed_words", "bert"])
def test_instructions_that_are_missing_are_asked_for(kind):
    """DAT-10: a missing instruction is an error, not a guess."""
    with pytest.raises(UsageError, match=r"task 'task_1' tells the agent none.*one_hot"):
        embedding(kind, contexts(("a", None)))
    hidden = (TaskContext(Spaces(None, None)),)
    found = embedding("hashed_words", hidden)
    assert found.vector(contexts()[0]).shape == (768,)
    with pytest.raises(UsageError, match=r"scenario\.reveal"):
        found.vector(hidden[0])


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A tiny BERT with random weights and the words of the instructions, in a folder."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "words.txt").write_text("\n".join(vocabulary) + "\n")
    tokeniser = BertTokenizerFast(vocab=str(folder / "words.txt"), do_lower_case=False)
    tokeniser.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2,
                num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
            )
        )  # fmt: skip
    model.save_pretrained(folder)
    return folder, model.eval(), tokeniser


def test_bert_is_read_from_a_folder_and_pooled(bert):
    folder, model, tokeniser = bert
    found = embedding("bert", path=str(folder), words=10)
    assert found.width == 16
    for task, text in zip(contexts(), TEXTS, strict=True):
        tokens = tokeniser(text, return_tensors="pt")
        with torch.no_grad():
            expected = model(**tokens).pooler_output[0]
        assert torch.allclose(found.vector(task), expected, atol=1e-5)  # padding is masked
    again = embedding("bert", path=str(folder), words=10)
    assert torch.equal(again.vector(contexts()[0]), found.vector(contexts()[0]))


def test_reading_bert_leaves_torch_s_generator_alone(bert):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    embedding("bert", path=str(bert[0]))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_without_a_bert_is_refused_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(
        Unsupported, match=r"holds no BERT that can be read .*safetensors"
    ) as caught:
        embedding("bert", path=str(tmp_path))
    assert "\n" not in str(caught.value)


def test_weights_that_are_pickled_are_not_read(bert, tmp_path):
    _, model, tokeniser = bert
    tokeniser.save_pretrained(tmp_path)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(Unsupported, match="holds no BERT that can be read"):
        embedding("bert", path=str(tmp_path))
