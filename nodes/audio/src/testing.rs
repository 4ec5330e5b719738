//! Test data shared by several nodes.

/// Samples that are not audio. Nodes that keep state must recover from them.
pub(crate) const INVALID_SAMPLES: [f32; 4] = [f32::NAN, f32::NEG_INFINITY, 2e19, -1e30];

#[test]
fn invalid_samples_count_as_silence() {
    use afferent_messages::AudioBlock;

    assert_eq!(INVALID_SAMPLES.map(AudioBlock::sanitized), [0.0; 4]);
    assert_eq!([-1e3, -0.5, 0.0, 2.0].map(AudioBlock::sanitized), [-1e3, -0.5, 0.0, 2.0]);
}
