//! Messages of an untrusted process: random and damaged ones cause an error, but no panic.

use afferent_graph::{Header, Timestamp};
use afferent_tests_hostile::{Random, message};
use afferent_transport::frame::{self, Ack, Head, PacketHead};

/// One message of each kind.
fn messages() -> Vec<Vec<u8>> {
    let header = Header { at: Timestamp(-1), sequence: 7, epoch: 2, ..Header::default() };
    let head = PacketHead { edge: 1, post: 8, incarnation: 1, header };
    let mut inline = Vec::new();
    frame::begin_packet(&mut inline, &head);
    inline.extend([1; 20]);
    frame::end_inline(&mut inline, 200, |slot| slot.fill(3)).expect("the metadata is short");
    let mut segment = Vec::new();
    frame::begin_packet(&mut segment, &head);
    frame::end_in_segment(&mut segment, 4, (64, 1 << 20)).expect("the metadata is short");
    let ack = Ack { received: 3, taken: 2, dropped: 1, last_post: 3, ..Ack::default() };
    let heads = [Head::Watermark(head), Head::End(head), Head::Ack(ack), Head::Control];
    let heads = heads.map(|head| head.bytes().to_vec());
    [inline, segment].into_iter().chain(heads).collect()
}

#[test]
fn damaged_messages_are_read_without_a_panic() {
    let mut random = Random(1);
    let (mut read, mut refused) = (0, 0);
    let mut count = |message: &[u8]| match message::read(message) {
        true => read += 1,
        false => refused += 1,
    };
    for message in messages() {
        assert!(message::read(&message));
        (0..message.len()).for_each(|len| count(&message[..len]));
        for _ in 0..20_000 {
            let mut damaged = message.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(damaged.len());
                damaged[at] = random.below(256) as u8;
            }
            count(&damaged);
        }
        // Extreme values of every field.
        for at in (0..message.len().min(frame::PACKET_HEAD)).step_by(8) {
            for value in [0, 1, u64::from(u32::MAX), u64::MAX, 1 << 63] {
                let mut damaged = message.clone();
                damaged[at..][..8].copy_from_slice(&value.to_le_bytes());
                count(&damaged);
            }
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} read, {refused} refused");
}
