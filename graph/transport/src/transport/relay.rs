//! Messages between two other processes, which this one passes on.

use std::{collections::VecDeque, sync::MutexGuard};

use afferent_core::ForeignBytes;

use super::{Connection, Transport};
use crate::{
    frame::{self, Head},
    link::{BulkBytes, LinkError},
    lock,
};

/// A message on its way between two other processes.
pub(super) struct Relayed {
    head: Head,
    /// Without the bulk bytes of a packet.
    message: Vec<u8>,
    bulk: ForeignBytes,
}

impl Transport {
    /// Passes a message on to the process of `to`.
    pub(super) fn forward(
        &self,
        to: usize,
        head: &Head,
        message: &[u8],
        bulk: ForeignBytes,
    ) -> Result<(), String> {
        let meta = match head {
            Head::Packet(_) => {
                let parts = frame::parts(message).map_err(|error| error.to_string())?;
                frame::PACKET_HEAD + parts.meta.len()
            }
            _ => message.len(),
        };
        let relayed = Relayed { head: *head, message: message[..meta].to_vec(), bulk };
        self.relays()[to].push_back(relayed);
        self.relay(to);
        Ok(())
    }

    /// Drops what waits from and for `partitions`: its senders count it as lost, or have ended.
    pub(super) fn drop_relayed(&self, partitions: &[usize]) {
        let is_lost = |relayed: &Relayed| match relayed.head {
            Head::Packet(packet)
            | Head::End(packet)
            | Head::Watermark(packet)
            | Head::Skip(packet) => {
                let edge = self.graph.edges.get(usize::from(packet.edge));
                edge.is_some_and(|edge| partitions.contains(&self.graph.partition_of(edge.from.0)))
            }
            Head::Ack(ack) => {
                let edge = self.graph.edges.get(usize::from(ack.edge));
                edge.is_some_and(|edge| partitions.contains(&self.graph.partition_of(edge.to.0)))
            }
            Head::Control | Head::Release(_) => false,
        };
        for (to, waiting) in self.relays().iter_mut().enumerate() {
            waiting.retain(|relayed| !is_lost(relayed) && !partitions.contains(&to));
        }
    }

    fn relays(&self) -> MutexGuard<'_, Vec<VecDeque<Relayed>>> {
        lock(&self.relays)
    }

    /// Passes on what the link to the process of `to` takes.
    pub(super) fn relay(&self, to: usize) {
        let mut relays = self.relays();
        let link = match self.connection_to(to) {
            Some(Connection { link, has_joined: true }) if link.is_up() => link,
            Some(_) => return,
            // Their senders count them as lost.
            None => return relays[to].clear(),
        };
        while let Some(Relayed { head, message, bulk }) = relays[to].front_mut() {
            if matches!(head, Head::Packet(_)) {
                let hold = || bulk.clone();
                match link.send_packet(message, BulkBytes { bytes: bulk.as_slice(), hold: &hold }) {
                    Ok(()) => {}
                    Err(LinkError::Full) => return,
                    Err(error) => tracing::error!("a packet is lost: {error}"),
                }
            } else {
                link.send(head, &message[frame::HEAD..]);
            }
            relays[to].pop_front();
        }
    }
}
