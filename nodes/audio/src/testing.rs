//! Samples that are no sound, for tests.

/// Sound that nodes which remember what they heard have to outlive.
pub(crate) const NO_SOUND: [f32; 4] = [f32::NAN, f32::NEG_INFINITY, 2e19, -1e30];

#[test]
fn what_is_no_sound_is_silence() {
    use afferent_messages::AudioBlock;

    assert_eq!(NO_SOUND.map(AudioBlock::heard), [0.0; 4]);
    assert_eq!([-1e3, -0.5, 0.0, 2.0].map(AudioBlock::heard), [-1e3, -0.5, 0.0, 2.0]);
}
