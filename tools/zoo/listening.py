"""Runs the wake word of microcontrollers with the code of the firmware, by the example `listen` of mcu/wake."""
import os
import subprocess

import numpy as np

import data
from models import LogMel, WakeWord
from streaming import MODELS

PROGRAM = os.path.join(MODELS, "wake_word_int8", "wake_word_int8.pte")
# `cargo build --release -p afferent-wake --features std --example listen`
LISTEN = os.environ.get("LISTEN", os.path.join(data.ROOT, "target", "release", "examples", "listen"))


def listen(argument, sound):
    """Returns the output of the example for a 16-bit sound as f32."""
    samples = np.round(sound * 32768).clip(-32768, 32767).astype("<i2")
    return subprocess.run([LISTEN, argument], input=samples.tobytes(), stdout=subprocess.PIPE, check=True).stdout


def feature_rows(sound):
    """Returns the quantized features of each hop: i8[hops, 40]."""
    return np.frombuffer(bytearray(listen("features", sound)), np.int8).reshape(-1, LogMel.BANDS)


class Listening:
    """Scores of each call, from the shipped program."""

    def __call__(self, sound):
        return np.frombuffer(listen(PROGRAM, sound), "<f4").reshape(-1, len(WakeWord.LABELS))
