"""Writes the sounds of the tests: a sine wave of 440 Hz, 0.1 s at 8 kHz, two channels. The second one is half as loud.

    pip install soundfile
    python write.py
"""
import os

import numpy as np
import soundfile

HERE = os.path.dirname(os.path.abspath(__file__))
RATE = 8000
FORMATS = {"sine.aiff": ("AIFF", "PCM_16"), "sine.flac": ("FLAC", "PCM_16"), "sine.mp3": ("MP3", "MPEG_LAYER_III"),
           "sine.ogg": ("OGG", "VORBIS"), "sine_ima.wav": ("WAV", "IMA_ADPCM"), "sine_ms.wav": ("WAV", "MS_ADPCM"),
           "sine.opus": ("OGG", "OPUS")}

sine = 0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE // 10) / RATE)
for name, (container, codec) in FORMATS.items():
    soundfile.write(os.path.join(HERE, name), np.stack([sine, sine / 2], 1), RATE, codec, format=container)
