"""A voice agent: answers the question in a sound file, or with ``live`` those of the microphone.

python voice_agent.py [live]
"""

import pathlib
import sys

import afferent

pipelines = pathlib.Path(__file__).parents[2] / "pipelines"
profile = "live" if "live" in sys.argv[1:] else None
graph = afferent.Graph(pipelines / "voice_agent.yaml", profile=profile)

with graph.start(
    on={
        "turns.text": lambda message: print("user: ", message.text),
        "sentences.text": lambda message: message.text and print("agent:", message.text),
    }
) as run:
    run.wait()
