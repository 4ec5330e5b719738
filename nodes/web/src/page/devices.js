// The devices of this browser: microphone, speaker and camera of the nodes that ask for them.

const element = (id) => document.getElementById(id);
const running = [];
let stopped = true;

function socketAt(path) {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const socket = new WebSocket(`${scheme}://${location.host}${path}`);
  socket.binaryType = 'arraybuffer';
  return socket;
}

// Connects to the node of a device, and again after an interruption, until the page stops it.
function connect(device, handlers) {
  let socket = null;
  let retry = 0;
  const open = () => {
    if (stopped) return;
    socket = socketAt(`/device/${encodeURIComponent(device.name)}`);
    socket.onopen = () => { retry = 0; handlers.state('connected', true); };
    socket.onmessage = (event) => handlers.message?.(event.data);
    socket.onclose = (event) => {
      if (stopped) return;
      if (event.reason.includes('taken')) { handlers.state(event.reason, false); return; }
      retry = Math.min(retry + 1, 5);
      handlers.state(`interrupted (${event.reason || 'no answer'}), connecting again …`, false);
      setTimeout(open, 300 * retry);
    };
  };
  open();
  return {
    send: (data) => {
      // A connection that does not keep up loses sound instead of piling it up.
      if (socket?.readyState === WebSocket.OPEN && socket.bufferedAmount < 1e6) socket.send(data);
    },
    close: () => socket?.close(),
  };
}

// Starts the audio of the page. Some browsers never say that it runs.
async function begin(context) {
  const limit = new Promise((resolve) => { setTimeout(resolve, 2000); });
  await Promise.race([context.resume(), limit]);
  if (context.state !== 'running') throw new Error('the browser does not start its audio: press the button again');
}

async function startMicrophone(device, state) {
  const { rate, echo_cancellation, noise_suppression, auto_gain } = device.settings;
  const stream = await navigator.mediaDevices.getUserMedia({
    audio: {
      channelCount: 1,
      echoCancellation: echo_cancellation,
      noiseSuppression: noise_suppression,
      autoGainControl: auto_gain,
    },
  });
  const context = new AudioContext({ sampleRate: rate });
  await context.audioWorklet.addModule('capture.js');
  const node = new AudioWorkletNode(context, 'capture', { numberOfOutputs: 0 });
  context.createMediaStreamSource(stream).connect(node);
  const link = connect(device, { state });
  node.port.onmessage = (event) => link.send(event.data);
  await begin(context);
  return () => {
    link.close();
    stream.getTracks().forEach((track) => track.stop());
    context.close();
  };
}

async function startSpeaker(device, state) {
  const { rate, jitter_s } = device.settings;
  const context = new AudioContext({ sampleRate: rate });
  await begin(context);
  let next = 0;
  const message = (data) => {
    const samples = new Int16Array(data);
    if (samples.length === 0) return;
    const buffer = context.createBuffer(1, samples.length, rate);
    const to = buffer.getChannelData(0);
    for (let at = 0; at < samples.length; at++) to[at] = samples[at] / 32768;
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    // Sound that comes too late begins after the delay again.
    if (next < context.currentTime) next = context.currentTime + jitter_s;
    source.start(next);
    next += buffer.duration;
    window.afferentPlayed = (window.afferentPlayed ?? 0) + samples.length;
  };
  const link = connect(device, { state, message });
  return () => { link.close(); context.close(); };
}

async function startCamera(device, state) {
  const { width, height, fps, quality, front } = device.settings;
  const stream = await navigator.mediaDevices.getUserMedia({
    video: { width, height, frameRate: fps, facingMode: front ? 'user' : 'environment' },
  });
  const video = element('own');
  video.srcObject = stream;
  video.hidden = false;
  await video.play();
  const canvas = document.createElement('canvas');
  const link = connect(device, { state });
  const timer = setInterval(() => {
    if (!video.videoWidth) return;
    canvas.width = video.videoWidth;
    canvas.height = video.videoHeight;
    canvas.getContext('2d').drawImage(video, 0, 0);
    canvas.toBlob(async (blob) => blob && link.send(await blob.arrayBuffer()), 'image/jpeg', quality);
  }, 1000 / fps);
  return () => {
    clearInterval(timer);
    link.close();
    stream.getTracks().forEach((track) => track.stop());
    video.hidden = true;
  };
}

const starters = { microphone: startMicrophone, speaker: startSpeaker, camera: startCamera };

function explain(error) {
  if (!navigator.mediaDevices) {
    return 'this browser gives a page its devices only at localhost or over https: open the page on this machine, or through a tunnel such as adb reverse';
  }
  if (error.name === 'NotAllowedError') return 'the permission was refused: allow it in the address bar, and try again';
  if (error.name === 'NotFoundError') return 'there is no such device';
  return `${error.name}: ${error.message}`;
}

async function start(devices) {
  stopped = false;
  element('start').hidden = true;
  element('stop').hidden = false;
  element('device-list').replaceChildren();
  for (const device of devices) {
    const item = document.createElement('li');
    const state = (text, good) => {
      item.textContent = `${device.name} (${device.kind}): ${text}`;
      item.className = good ? 'good' : 'bad';
    };
    state('starting …', true);
    element('device-list').append(item);
    try {
      running.push(await starters[device.kind](device, state));
    } catch (error) {
      state(explain(error), false);
    }
  }
}

function stop() {
  stopped = true;
  running.splice(0).forEach((end) => end());
  element('start').hidden = false;
  element('stop').hidden = true;
  element('device-list').replaceChildren();
}

// The nodes of the graph may not all be open when the page is.
async function known() {
  try {
    return await (await fetch('devices.json')).json();
  } catch {
    return { devices: [], live: false };
  }
}

async function look() {
  const found = await known();
  if (stopped) element('devices').hidden = found.devices.length === 0;
  if (!found.live && found.devices.length) element('state').textContent = 'ready';
  setTimeout(look, 1000);
}

element('start').onclick = async () => start((await known()).devices);
element('stop').onclick = stop;
look();
