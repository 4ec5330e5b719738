#!/usr/bin/env python3
"""Detection of speech by sherpa-onnx, and by onnxruntime as pipecat calls it, as peers of `afferent-bench vad`.

    python tools/bench/sherpa_vad.py VAD.onnx SOUND.wav SECONDS

Needs sherpa-onnx, onnxruntime and numpy. Prints a JSON object: processor time in microseconds for 20 ms of sound,
one thread; how many of the windows are speech for onnxruntime, and how many pieces sherpa-onnx found.
"""
import argparse
import json
import time
import wave

import numpy as np
import onnxruntime
import sherpa_onnx

RATE, BLOCK, WINDOW, CONTEXT, THRESHOLD = 16000, 320, 512, 64, 0.5


def sound_of(path, seconds):
    with wave.open(path) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
    count = seconds * RATE
    return np.tile(samples, -(-count // len(samples)))[:count]


def by_sherpa(model, sound):
    config = sherpa_onnx.VadModelConfig()
    config.silero_vad.model, config.silero_vad.threshold = model, THRESHOLD
    config.silero_vad.min_silence_duration, config.silero_vad.min_speech_duration = 0.2, 0.1
    config.sample_rate, config.num_threads = RATE, 1
    vad = sherpa_onnx.VoiceActivityDetector(config, buffer_size_in_seconds=60)
    pieces, start = 0, time.process_time()
    for at in range(0, len(sound), BLOCK):
        vad.accept_waveform(sound[at:at + BLOCK])
        while not vad.empty():
            vad.pop()
            pieces += 1
    return time.process_time() - start, pieces


def by_onnxruntime(model, sound):
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    state, context, speech = np.zeros((2, 1, 128), np.float32), np.zeros(CONTEXT, np.float32), 0
    rate, start = np.array(RATE, np.int64), time.process_time()
    for at in range(0, len(sound) - WINDOW + 1, WINDOW):
        window = sound[at:at + WINDOW]
        chance, state = session.run(None, {"input": np.concatenate([context, window])[None], "state": state, "sr": rate})
        context = window[-CONTEXT:]
        speech += int(chance[0, 0] >= THRESHOLD)
    return time.process_time() - start, speech


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("sound")
    parser.add_argument("seconds", type=int)
    arguments = parser.parse_args()
    sound = sound_of(arguments.sound, arguments.seconds)
    blocks = len(sound) / BLOCK
    sherpa, pieces = by_sherpa(arguments.model, sound)
    runtime, speech = by_onnxruntime(arguments.model, sound)
    print(json.dumps({"sherpa_us": 1e6 * sherpa / blocks, "pieces": pieces, "onnxruntime_us": 1e6 * runtime / blocks,
                      "speech": speech}))


if __name__ == "__main__":
    main()
