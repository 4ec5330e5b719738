//! Reads arbitrary messages of another process.

use afferent_transport::{
    frame::{self, Bulk, Head},
    window::{ReceiveWindow, SendWindow},
};

/// Reads `data` as a message and applies it to the counters of an edge. Returns true if it is a
/// message.
///
/// # Panics
/// If the parts of a packet are not in the message, if a head changes when it is written and read
/// again, or if the counters of the edge overflow.
pub fn read(data: &[u8]) -> bool {
    let Ok(head) = Head::read(data) else { return false };
    assert_eq!(Head::read(&head.bytes()), Ok(head), "a head does not change on its way");
    match head {
        Head::Packet(packet) => {
            let Ok(parts) = frame::parts(data) else { return false };
            let range = data.as_ptr_range();
            let is_inside = |part: &[u8]| {
                let part = part.as_ptr_range();
                part.is_empty() || (range.start <= part.start && part.end <= range.end)
            };
            assert!(is_inside(parts.meta), "the metadata is in the message");
            if let Bulk::Inline(bulk) = parts.bulk {
                assert!(is_inside(bulk), "the bulk bytes are in the message");
            }
            let mut window = ReceiveWindow::default();
            let is_new = window.receive(packet.post);
            assert!(!(is_new && window.receive(packet.post)), "a packet arrives once");
        }
        Head::Ack(ack) => {
            let mut window = SendWindow::new(4);
            for _ in 0..3 {
                window.post();
            }
            // The second one meets the counters of the first.
            let is_accepted = window.acknowledge(&ack).is_ok();
            assert_eq!(window.acknowledge(&ack).is_ok(), is_accepted);
            assert!(window.in_transit() <= 3 && window.posted() == 3);
            window.lose();
        }
        _ => {}
    }
    true
}
