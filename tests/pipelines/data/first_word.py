"""Writes the sounds of first_word.rs: 16 kHz, µ-law. Needs espeak-ng and numpy.

    python first_word.py
"""
import io
import os
import struct
import subprocess
import wave

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RATE = 16000
TAIL_S = 0.1


def speak(text, voice):
    """Synthesizes speech, without the silence around it."""
    command = ["espeak-ng", "-v", voice, "-s", "160", "--stdout", text]
    with wave.open(io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout)) as file:
        sound = np.frombuffer(file.readframes(1 << 30), "<i2").astype(float)
        position = np.arange(0, len(sound), file.getframerate() / RATE)
    # A moving average is enough of a low-pass filter for speech.
    sound = np.convolve(sound, np.ones(3) / 3, "same")
    sound = np.interp(position, np.arange(len(sound)), sound)
    loud = np.flatnonzero(np.abs(sound) > 30)
    return sound[loud[0]:loud[-1] + 1]


def mu_law(sound):
    """Encodes samples of 16 bits (ITU-T G.711)."""
    size = np.minimum(np.abs(sound), 32635).astype(int) + 132
    exponent = np.floor(np.log2(size)).astype(int) - 7
    mantissa = (size >> (exponent + 3)) & 15
    return (~(np.where(sound < 0, 128, 0) | exponent << 4 | mantissa) & 255).astype(np.uint8).tobytes()


def write(name, parts):
    samples = mu_law(np.concatenate(parts + [np.zeros(int(TAIL_S * RATE))]))
    samples += b"\xff" * (len(samples) % 2)
    header = struct.pack("<4sI4s4sIHHIIHHH4sI", b"RIFF", len(samples) + 38, b"WAVE", b"fmt ", 18, 7, 1, RATE, RATE, 1, 8, 0,
                         b"data", len(samples))
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(header + samples)


write("no_lead_in.wav", [speak("turn off the lights", "en-gb+f2")])
write("pause.wav", [np.zeros(RATE // 4), speak("set a timer for", "en-us+m3"), np.zeros(int(0.26 * RATE)),
                    speak("ten minutes", "en-us+m3")])
