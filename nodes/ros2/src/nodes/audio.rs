//! Audio on topics of `audio_common_msgs/AudioDataStamped`.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, ports};
use afferent_messages::{AudioBlock, SampleRate};

use crate::{
    PcmFormat, TimeOf, cdr,
    endpoint::endpoint_params,
    link,
    msg::audio_common_msgs::AudioDataStamped,
    topic::{TopicIn, TopicOut, input_error},
};

/// Receives audio from a topic of ROS 2 (`audio_common_msgs/AudioDataStamped`).
///
/// The message states neither encoding nor sample rate: the samples must be interleaved 16-bit PCM in
/// little endian (`format: wave` of `audio_capture`) with the rate and channels of the parameters.
///
/// Latency: that of the network.
pub struct Ros2AudioSource {
    topic: TopicIn,
    format: PcmFormat,
}

endpoint_params! {
    /// Settings of [`Ros2AudioSource`].
    Ros2AudioSourceParams {
        /// Topic, such as `/audio_stamped`.
        pub topic: String;
        /// Sample rate of the samples.
        pub rate: u32 = "16000", range 1.0..=768000.0, unit "Hz";
        /// Number of channels.
        pub channels: usize = "1", range 1.0..=64.0;
        /// Timestamp of the blocks.
        pub time: TimeOf = "sender";
    }
}

ports! {
    impl Ros2AudioSource {
        /// Audio of the topic, full scale ±1, a block for each message.
        out AUDIO: AudioBlock;
    }
}

impl Node for Ros2AudioSource {
    type Params = Ros2AudioSourceParams;

    const NAME: &'static str = "ros2_audio_source";
    const SUMMARY: &'static str =
        "Receives audio from a topic of ROS 2 (audio_common_msgs/AudioDataStamped).";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the network";

    fn check(params: &Ros2AudioSourceParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<AudioDataStamped<'_>>(cx)?)
    }

    fn open(params: Ros2AudioSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<AudioDataStamped<'_>>(cx)?;
        let format = PcmFormat { rate: SampleRate(params.rate), channels: params.channels };
        Ok(Self { topic: TopicIn::open(&endpoint, params.time, cx)?, format })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(message) = self.topic.receive() else { return Ok(()) };
        let bytes = message.bytes();
        let mut block = cx.loan(Self::AUDIO);
        let filled = cdr::decode::<AudioDataStamped<'_>>(&bytes).and_then(|decoded| {
            decoded.fill(self.format, &mut block)?;
            Ok(Some(decoded.header.stamp))
        });
        if let Some(at) = self.topic.accept(cx, &message, filled) {
            cx.send_at(Self::AUDIO, at, block);
        }
        Ok(())
    }
}

/// Publishes audio on a topic of ROS 2 (`audio_common_msgs/AudioDataStamped`).
///
/// The messages hold interleaved 16-bit PCM in little endian. Subscribers must know the sample rate and
/// the number of channels.
///
/// Latency: none; a thread sends the messages.
pub struct Ros2AudioSink {
    topic: TopicOut,
    frame_id: String,
}

endpoint_params! {
    /// Settings of [`Ros2AudioSink`].
    Ros2AudioSinkParams {
        /// Topic, such as `/audio_stamped`.
        pub topic: String;
        /// Coordinate frame of the messages.
        pub frame_id: String = "microphone";
    }
}

ports! {
    impl Ros2AudioSink {
        /// Audio, full scale ±1, any sample rate.
        in AUDIO: AudioBlock;
    }
}

impl Node for Ros2AudioSink {
    type Params = Ros2AudioSinkParams;

    const NAME: &'static str = "ros2_audio_sink";
    const SUMMARY: &'static str =
        "Publishes audio on a topic of ROS 2 (audio_common_msgs/AudioDataStamped).";
    const PORTS: &'static [Port] = Self::PORTS;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "none; a thread sends the messages";

    fn check(params: &Ros2AudioSinkParams, cx: &OpenCx) -> Result<(), NodeError> {
        link::check(&params.endpoint::<AudioDataStamped<'_>>(cx)?)
    }

    fn open(params: Ros2AudioSinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = params.endpoint::<AudioDataStamped<'_>>(cx)?;
        Ok(Self { topic: TopicOut::open(&endpoint, cx)?, frame_id: params.frame_id })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(block) = cx.get(Self::AUDIO) else { return Ok(()) };
        let header = self.topic.header(cx, &self.frame_id)?;
        let message = AudioDataStamped::from_payload(block, header)
            .map_err(|error| input_error(Self::AUDIO.name(), error))?;
        self.topic.publish(cx, &message)
    }
}
