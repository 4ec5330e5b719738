// Takes the samples of the microphone, and sends them on as 16-bit integers in parts of 20 ms.

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Int16Array(Math.round(sampleRate / 50));
    this.length = 0;
  }

  process(inputs) {
    const channel = inputs[0][0];
    if (!channel) return true;
    for (const sample of channel) {
      this.samples[this.length++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
      if (this.length === this.samples.length) {
        const whole = this.samples.slice();
        this.port.postMessage(whole.buffer, [whole.buffer]);
        this.length = 0;
      }
    }
    return true;
  }
}

registerProcessor('capture', Capture);
