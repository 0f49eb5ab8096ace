"""LIBERO's own road through an episode, in a process of its own: hard reset, its step, its images.

    python official.py SPECIFICATION.json OUT.npz

For each entry of the specification (definition, states, state, seed, actions, size) the wrapper
``OffScreenRenderEnv`` is built, reset with numpy's generator seeded, put into the initial state,
settled, and driven by the actions; with a size, images are observed. Nothing of L2bench is used.
"""

import json
import sys
from pathlib import Path

import numpy as np
from libero.libero.envs import OffScreenRenderEnv

SETTLE = 5


def record(entry):
    pixels = entry["size"] is not None
    env = OffScreenRenderEnv(
        bddl_file_name=entry["definition"],
        use_camera_obs=pixels,
        camera_heights=entry["size"] or 16,
        camera_widths=entry["size"] or 16,
    )
    # Every construction and hard reset adds samplers to those of the last one, each of which
    # draws: without this, LIBERO's own resets differ among themselves.
    env.env.object_property_initializers.clear()
    np.random.seed(entry["seed"])
    env.env.reset()
    env.set_init_state(np.load(entry["states"])[entry["state"]])
    for _ in range(SETTLE):
        seen = env.step(np.zeros(7))[0]
    rows = [(env.get_sim_state(), seen, False)]
    for action in entry["actions"]:
        seen, _, done, _ = env.step(np.array(action))
        rows.append((env.get_sim_state(), seen, done))
    env.close()
    kept = [key for key in rows[0][1] if not key.endswith("-state")]
    columns = {key: np.array([seen[key] for _, seen, _ in rows]) for key in kept}
    columns[":state"] = np.array([state for state, _, _ in rows])
    columns[":done"] = np.array([bool(done) for _, _, done in rows])
    return columns


def main():
    specification, out = sys.argv[1:]
    entries = json.loads(Path(specification).read_text())
    found = {}
    for number, entry in enumerate(entries):
        found |= {f"{number}/{key}": column for key, column in record(entry).items()}
    np.savez(out, **found)


if __name__ == "__main__":
    main()
