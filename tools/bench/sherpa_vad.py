#!/usr/bin/env python3
"""Runs voice activity detection with sherpa-onnx and onnxruntime, as peers of `afferent-bench vad`.

    python tools/bench/sherpa_vad.py VAD.onnx AUDIO.wav SECONDS

onnxruntime is called for each window, as pipecat does. Needs sherpa-onnx, onnxruntime and numpy. Prints a JSON
object: CPU time in microseconds for 20 ms of audio on one thread, the number of speech windows of onnxruntime, and
the number of speech segments of sherpa-onnx.
"""
import argparse
import json
import time
import wave

import numpy as np
import onnxruntime
import sherpa_onnx

RATE, BLOCK, WINDOW, CONTEXT, THRESHOLD = 16000, 320, 512, 64, 0.5


def read_audio(path, seconds):
    with wave.open(path) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
    count = seconds * RATE
    return np.tile(samples, -(-count // len(samples)))[:count]


def run_sherpa(model, audio):
    config = sherpa_onnx.VadModelConfig()
    config.silero_vad.model, config.silero_vad.threshold = model, THRESHOLD
    config.silero_vad.min_silence_duration, config.silero_vad.min_speech_duration = 0.2, 0.1
    config.sample_rate, config.num_threads = RATE, 1
    vad = sherpa_onnx.VoiceActivityDetector(config, buffer_size_in_seconds=60)
    segments, start = 0, time.process_time()
    for at in range(0, len(audio), BLOCK):
        vad.accept_waveform(audio[at:at + BLOCK])
        while not vad.empty():
            vad.pop()
            segments += 1
    return time.process_time() - start, segments


def run_onnxruntime(model, audio):
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    state, context, speech = np.zeros((2, 1, 128), np.float32), np.zeros(CONTEXT, np.float32), 0
    rate, start = np.array(RATE, np.int64), time.process_time()
    for at in range(0, len(audio) - WINDOW + 1, WINDOW):
        window = audio[at:at + WINDOW]
        score, state = session.run(None, {"input": np.concatenate([context, window])[None], "state": state, "sr": rate})
        context = window[-CONTEXT:]
        speech += int(score[0, 0] >= THRESHOLD)
    return time.process_time() - start, speech


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("audio")
    parser.add_argument("seconds", type=int)
    arguments = parser.parse_args()
    audio = read_audio(arguments.audio, arguments.seconds)
    blocks = len(audio) / BLOCK
    sherpa, segments = run_sherpa(arguments.model, audio)
    runtime, speech = run_onnxruntime(arguments.model, audio)
    print(json.dumps({"sherpa_us": 1e6 * sherpa / blocks, "segments": segments, "onnxruntime_us": 1e6 * runtime / blocks,
                      "speech": speech}))


if __name__ == "__main__":
    main()
