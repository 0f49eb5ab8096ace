"""Changed training images: known answers, one change for a whole window, never while acting."""

import colorsys

import numpy as np
import pytest
import torch

from l2bench_agents import augmentation
from l2bench_agents.settings import AugmentationSettings

STILL = {"translation": 0, "brightness": 0, "contrast": 0, "saturation": 0, "hue": 0}


def pixels(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 256, shape).astype(np.uint8))


def factor(*values):
    return torch.tensor(values).view(len(values), 1, 1, 1, 1)


def test_without_strength_images_are_only_scaled():
    image = pixels(3, 2, 8, 8, 3)
    changed = augmentation.augment({"a": image}, AugmentationSettings(**STILL))["a"]
    assert torch.allclose(changed, image / 255, atol=1e-6)


def test_images_are_moved_and_their_edges_repeated():
    image = pixels(2, 2, 4, 5, 3)
    moved = augmentation.translate(image, torch.tensor([[1, -2], [0, 3]]))
    assert torch.equal(moved[0, :, :3], image[0, :, 1:])
    assert torch.equal(moved[0, :, 3], image[0, :, 3])
    assert torch.equal(moved[1, :, 2:, :2], image[1, :, :2, 3:])
    assert torch.equal(moved[1, :, 3, 4], image[1, :, 1, 4])
    assert moved.shape == image.shape


@pytest.mark.parametrize("turn", [0.0, 0.1, -0.3, 0.5])
def test_hues_turn_as_in_the_standard_library(turn):
    image = pixels(1, 1, 6, 6, 3).float() / 255
    turned = augmentation.hue(image, factor(turn))[0, 0].reshape(-1, 3).numpy()
    for before, after in zip(image[0, 0].reshape(-1, 3).tolist(), turned, strict=True):
        h, s, v = colorsys.rgb_to_hsv(*before)
        assert after == pytest.approx(colorsys.hsv_to_rgb((h + turn) % 1, s, v), abs=1e-5)


def test_grey_stays_grey_whatever_the_hue():
    grey = torch.full((1, 1, 2, 2, 3), 0.4)
    assert torch.allclose(augmentation.hue(grey, factor(0.3)), grey)


def test_brightness_contrast_and_saturation_by_hand():
    image = torch.tensor([[0.2, 0.4, 0.6], [0.0, 0.5, 1.0]]).view(1, 1, 1, 2, 3)
    bright = augmentation.brightness(image, factor(1.5)).view(2, 3)
    assert bright.tolist() == [pytest.approx([0.3, 0.6, 0.9]), pytest.approx([0.0, 0.75, 1.0])]
    grey = [0.2 * 0.299 + 0.4 * 0.587 + 0.6 * 0.114, 0.5 * 0.587 + 0.114]
    mean = sum(grey) / 2
    flat = augmentation.contrast(image, factor(0.0)).view(2, 3)
    assert flat.tolist() == [pytest.approx([mean] * 3)] * 2
    pale = augmentation.saturation(image, factor(0.5)).view(2, 3)[0]
    assert pale.tolist() == pytest.approx(
        [(0.2 + grey[0]) / 2, (0.4 + grey[0]) / 2, (0.6 + grey[0]) / 2]
    )


def test_frames_and_cameras_of_a_window_change_alike_and_windows_do_not():
    one = pixels(1, 1, 16, 16, 3)
    image = one.expand(4, 3, -1, -1, -1).contiguous()
    torch.manual_seed(0)
    both = augmentation.augment({"a": image, "b": image}, AugmentationSettings(skip=0))
    assert torch.equal(both["a"], both["b"])
    assert torch.equal(both["a"][:, 0], both["a"][:, 2])
    assert not torch.equal(both["a"][0], both["a"][1])


def test_skipped_windows_keep_their_colours():
    image = pixels(4, 2, 8, 8, 3)
    still = AugmentationSettings(translation=0, skip=1)
    assert torch.allclose(augmentation.augment({"a": image}, still)["a"], image / 255, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_other_numbers_of_channels_pass(channels):
    changed = augmentation.augment({"a": pixels(2, 2, 8, 8, channels)}, AugmentationSettings())
    assert changed["a"].shape == (2, 2, 8, 8, channels)
    assert 0 <= changed["a"].min() <= changed["a"].max() <= 1
