"""Building LIBERO's simulation of a task, with or without what only a camera sees."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np

from l2bench_libero import installation


def build(definition: Path, *, visible: bool) -> Any:
    """Return LIBERO's own environment of a task definition, as ``ControlEnv`` would make it.

    It renders nothing itself, and keeps its model over resets. Without ``visible`` its model lacks
    meshes and textures: built in a sixth of the time and a quarter of the memory, with the same
    physics to the last bit.

    Raises:
        Unsupported: LIBERO or MuJoCo is missing or of another version.
    """
    envs = installation.simulation()
    with installation.quiet_environment():
        import robosuite  # type: ignore[import-untyped]
        from libero.libero.envs.bddl_utils import get_problem_info  # type: ignore[import-untyped]

        domain = envs.TASK_MAPPING[get_problem_info(str(definition))["problem_name"]]
        env = _kept(domain, visible=visible)(
            bddl_file_name=str(definition),
            robots=["Panda"],
            controller_configs=robosuite.load_controller_config(default_controller="OSC_POSE"),
            initialization_noise=None,
            use_camera_obs=False,
            has_offscreen_renderer=False,
            control_freq=20,
            ignore_done=True,
        )
    env.hard_reset = False
    return env


def _kept(domain: Any, *, visible: bool) -> Any:
    """Return a subclass of a LIBERO domain whose soft reset equals a hard one to the last bit."""

    class Kept(domain):  # type: ignore[misc]
        def _initialize_sim(self, xml_string: str | None = None) -> None:
            xml = xml_string or self.model.get_xml()
            super()._initialize_sim(xml if visible else without_visuals(xml))
            model = self.sim.model._model
            self._unplaced = model.body_pos.copy(), model.body_quat.copy()

        def _reset_internal(self) -> None:
            if not self.hard_reset:
                self._renew()
            super()._reset_internal()

        def _renew(self) -> None:
            """Undo what outlives a soft reset: fixture poses, gripper command, solver memory."""
            model, gripper = self.sim.model._model, self.robots[0].gripper
            model.body_pos[:], model.body_quat[:] = self._unplaced
            gripper.current_action = np.zeros(gripper.dof)
            # In MuJoCo 3.3 these evaluations, of a hard reset and of the making of its renderer,
            # are remembered by the solver.
            self.sim.forward()
            self.sim.forward()

    # LIBERO compares the name of the class with the task definition.
    Kept.__name__ = domain.__name__
    return Kept


def without_visuals(xml: str) -> str:
    """Return a model without textures, its meshes that touch nothing made tiny spheres.

    LIBERO takes masses from the solid shapes alone, so that nothing else changes; all shapes keep
    their names and order.
    """
    root = ElementTree.fromstring(xml)
    for shape in root.iter("geom"):
        touches = shape.get("contype") != "0" or shape.get("conaffinity") != "0"
        if not touches and shape.get("mesh") is not None:
            for name in ("mesh", "material", "type", "size"):
                shape.attrib.pop(name, None)
            shape.set("type", "sphere")
            shape.set("size", "0.001")
    needed = {shape.get("mesh") for shape in root.iter("geom")}
    for assets in root.iter("asset"):
        for item in list(assets):
            item.attrib.pop("texture", None)
            unused = item.tag == "mesh" and item.get("name") not in needed
            if item.tag == "texture" or unused:
                assets.remove(item)
    return ElementTree.tostring(root, encoding="unicode")
