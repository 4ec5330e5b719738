"""Measures the scene memory on rendered walks: objects remembered once, duplicates, position errors.

    python tools/zoo/vision/walks.py FOLDER SEED...
    python tools/zoo/vision/evaluate_memory.py FOLDER --afferent PROGRAM [--set NODE.PARAM=VALUE]

Depth and detections are those of the shipped models, poses are true. An object is present if an
entity of its class lies within 0.5 m of its middle; further ones there are duplicates, and entities
without an object are false.
"""
import argparse
import glob
import json
import os
import subprocess
import tempfile

import numpy as np
import paths

NEAR_M = 0.5


def remembered(program, walk, settings, work):
    """Runs the graph on a walk and returns the entities, without planes."""
    file = os.path.join(work, "scene.memory")
    if os.path.exists(file):
        os.remove(file)
    command = [program, "run", os.path.join(paths.ROOT, "pipelines", "scene_memory.yaml"), "--virtual", "--quiet"]
    for setting in [f"camera.path={walk}.avi", f"poses.path={walk}.txt", f"memory.path={file}", *settings]:
        command += ["--set", setting]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    listed = subprocess.run([program, "memory", file, "--json"], check=True, capture_output=True)
    return [entity for entity in json.loads(listed.stdout)["entities"] if not entity["plane"]]


def match(objects, entities):
    """Pairs objects with entities of their class, the nearest first. Returns pairs of indices with distances, and the
    numbers of further entities near an object and of those near none."""
    distances = [(np.linalg.norm(np.subtract(entity["position_m"], thing["middle_m"])), i, k)
                 for i, thing in enumerate(objects) for k, entity in enumerate(entities)
                 if thing["label"] == entity["class"]]
    near = sorted(distance for distance in distances if distance[0] <= NEAR_M)
    pairs, used_objects, used_entities = [], set(), set()
    for distance, i, k in near:
        if i not in used_objects and k not in used_entities:
            used_objects.add(i)
            used_entities.add(k)
            pairs.append((i, k, distance))
    near_any = {k for _, _, k in near}
    duplicates = len(near_any - used_entities)
    return pairs, duplicates, len(entities) - len(used_entities) - duplicates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--afferent", required=True, metavar="PROGRAM")
    parser.add_argument("--set", action="append", default=[], metavar="NODE.PARAM=VALUE")
    parser.add_argument("--missing", action="store_true", help="list the objects that are missing, and the others")
    options = parser.parse_args()
    totals, errors = np.zeros(4, int), []
    print(f"{'walk':<24} {'objects':>8} {'present':>8} {'twice':>6} {'false':>6} {'median error (m)':>17}")
    for video in sorted(glob.glob(os.path.join(options.folder, "*.avi"))):
        walk = video.removesuffix(".avi")
        with open(f"{walk}.json") as file:
            objects = json.load(file)["objects"]
        with tempfile.TemporaryDirectory() as work:
            entities = remembered(options.afferent, walk, options.set, work)
        pairs, duplicates, false = match(objects, entities)
        found = [distance for _, _, distance in pairs]
        errors += found
        counts = [len(objects), len(pairs), duplicates, false]
        totals += counts
        print(f"{os.path.basename(walk):<24} {counts[0]:8} {counts[1]:8} {counts[2]:6} {counts[3]:6} "
              f"{np.median(found):17.3f}", flush=True)
        if options.missing:
            for i, thing in enumerate(objects):
                if i not in {pair[0] for pair in pairs}:
                    print("  missing", thing)
            for k, entity in enumerate(entities):
                if k not in {pair[1] for pair in pairs}:
                    print("  other", {name: entity[name] for name in ("class", "position_m", "seen", "probability")})
    objects, present, duplicates, false = totals
    print(f"{'all':<24} {objects:8} {present:8} {duplicates:6} {false:6} {np.median(errors):17.3f}")
    print(f"present {present / objects:.1%}, duplicates {duplicates / objects:.1%}, false {false / objects:.1%}, "
          f"median position error {np.median(errors):.3f} m")


if __name__ == "__main__":
    main()
