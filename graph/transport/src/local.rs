//! Link between two processes of one machine: a Unix socket for messages, shared memory for bulk
//! bytes.
//!
//! The socket keeps the borders of messages (`SOCK_SEQPACKET`) and tells at once when the other
//! process dies; the kernel then frees the memory. Bulk bytes lie in segments, anonymous files that
//! the sender creates and both map. A segment is sent with the first packet that uses it, and
//! belongs to the receiver until it says that it needs it no more. Bytes that another process has sent
//! are sent on without a copy: the receiver gets the same segment.

#![expect(unsafe_code, reason = "maps memory that another process can map, too")]

use std::{
    collections::{HashMap, VecDeque},
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use afferent_core::ForeignBytes;
use memmap2::{Mmap, MmapOptions};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::{SealFlags, fcntl_get_seals, fstat},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
        recvmsg, sendmsg, shutdown, socketpair,
    },
};

use crate::{
    frame::{self, Bulk, FrameError, Head},
    link::{BulkBytes, Inbox, Link, LinkError},
    lock,
};

mod forwarded;
mod segments;

use forwarded::{Forwarded, Mapped, Used};
pub use segments::Loan;
use segments::Segments;

/// Bulk bytes up to this length travel in the message: a segment pays only for more.
const INLINE: usize = 4096;

/// Longest message.
const MAX_MESSAGE: usize = 64 * 1024;

/// Link to another process of this machine.
pub struct LocalLink {
    socket: OwnedFd,
    /// Wakes the thread of the link.
    wake: OwnedFd,
    out: Arc<Mutex<Out>>,
    /// True if messages wait for the socket.
    waits: AtomicBool,
}

/// Sending side.
#[derive(Default)]
struct Out {
    /// Messages that the socket did not take at once.
    waiting: VecDeque<(Vec<u8>, Option<Arc<OwnedFd>>)>,
    segments: Segments,
    forwarded: Forwarded,
}

/// Ends of a new link, for two processes.
///
/// # Errors
/// The error of the system.
pub fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// End of a link that the parent of this process passed as standard input, which is empty afterwards;
/// `None` if standard input is something else.
///
/// # Errors
/// The error of the system.
pub fn inherited() -> std::io::Result<Option<OwnedFd>> {
    let stdin = std::io::stdin();
    if rustix::net::sockopt::socket_type(&stdin) != Ok(SocketType::SEQPACKET) {
        return Ok(None);
    }
    let socket = rustix::io::fcntl_dupfd_cloexec(&stdin, 3)?;
    rustix::stdio::dup2_stdin(&std::fs::File::open("/dev/null")?)?;
    Ok(Some(socket))
}

impl LocalLink {
    /// Starts the link over one end of a [`pair`], and a thread for what arrives, which is named
    /// after `peer`.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(socket: OwnedFd, peer: &str, inbox: Arc<dyn Inbox>) -> std::io::Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let out = Arc::default();
        let link = Arc::new(Self { socket, wake, out, waits: AtomicBool::new(false) });
        let reader = Reader { link: link.clone(), inbox, mapped: HashMap::new() };
        thread::Builder::new().name(format!("link {peer}")).spawn(move || reader.run())?;
        Ok(link)
    }

    /// Sends a packet whose `len` bulk bytes `fill` writes where the receiver will read them; see
    /// [`Link::send_packet`].
    ///
    /// # Errors
    /// As [`Link::send_packet`].
    pub fn send_in_place(
        &self,
        message: &mut Vec<u8>,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), LinkError> {
        if len <= INLINE {
            frame::end_inline(message, len, fill)?;
            check_len(message)?;
            self.post(&mut self.out(), message, None);
            return Ok(());
        }
        let loan = self.loan(len)?;
        // SAFETY: nothing else reads or writes the segment until it is sent, and it has `len` bytes,
        // which the kernel has set to zero or an earlier packet has written.
        fill(unsafe { std::slice::from_raw_parts_mut(loan.as_mut_ptr(), len) });
        self.send_loan(message, &loan, len)
    }

    /// Lends shared memory of `len` bytes or more that the program fills and then sends. It is free again
    /// when it is dropped, or when the receiver needs it no more.
    ///
    /// # Errors
    /// [`LinkError::Full`] if the receiver and other loans have all segments.
    pub fn loan(&self, len: usize) -> Result<Loan, LinkError> {
        let (segment, map) = self.out().segments.take(len)?;
        Ok(Loan { map, segment, out: Arc::downgrade(&self.out), is_sent: AtomicBool::new(false) })
    }

    /// Sends a packet whose bulk bytes are the first `len` of `loan`; see [`Link::send_packet`].
    ///
    /// # Errors
    /// As [`Link::send_packet`], and if `loan` was sent already, is too short, or is one of another link.
    pub fn send_loan(&self, message: &mut [u8], loan: &Loan, len: usize) -> Result<(), LinkError> {
        check_len(message)?;
        let is_own = loan.out.as_ptr() == Arc::as_ptr(&self.out);
        if !is_own || len > loan.map.len() {
            return Err(FrameError::Field("the memory is shorter, or of another link").into());
        }
        if loan.is_sent.swap(true, Ordering::AcqRel) {
            return Err(FrameError::Field("the memory was sent already").into());
        }
        frame::end_in_segment(message, loan.segment, (0, len))?;
        let mut out = self.out();
        let file = out.segments.file(loan.segment);
        self.post(&mut out, message, file);
        Ok(())
    }

    /// Sends a packet whose bulk bytes another process has sent to this one; false if they have to be
    /// copied.
    fn forward(&self, message: &mut [u8], bulk: BulkBytes<'_>) -> Result<bool, LinkError> {
        let Some((source, start)) = forwarded::find(bulk.bytes) else { return Ok(false) };
        let held = (bulk.hold)();
        if held.as_slice().as_ptr() != bulk.bytes.as_ptr() {
            return Ok(false);
        }
        check_len(message)?;
        let mut out = self.out();
        let Some((segment, file)) = out.forwarded.number(&source) else {
            drop(out);
            return Ok(false);
        };
        out.forwarded.hold(segment, held);
        frame::end_in_segment(message, segment, (start, bulk.bytes.len()))?;
        self.post(&mut out, message, file);
        Ok(true)
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        lock(&self.out)
    }

    /// Sends a message, now or as soon as the socket takes it.
    fn post(&self, out: &mut Out, message: &[u8], file: Option<Arc<OwnedFd>>) {
        if out.waiting.is_empty() {
            match self.try_send(message, file.as_deref()) {
                Err(Errno::AGAIN | Errno::NOBUFS) => {}
                // If the peer is gone, the thread of the link says so.
                Ok(()) | Err(_) => return,
            }
        }
        out.waiting.push_back((message.to_vec(), file));
        self.waits.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn try_send(&self, message: &[u8], file: Option<&OwnedFd>) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = file.map(|file| [file.as_fd()]);
        if let Some(files) = &files {
            ancillary.push(SendAncillaryMessage::ScmRights(files));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(message)], &mut ancillary, flags).map(drop)
    }

    /// Sends what waits, as far as the socket takes it.
    fn flush(&self) {
        let mut out = self.out();
        while let Some((message, file)) = out.waiting.front() {
            match self.try_send(message, file.as_deref()) {
                Err(Errno::AGAIN | Errno::NOBUFS) => return,
                Ok(()) | Err(_) => drop(out.waiting.pop_front()),
            }
        }
        self.waits.store(false, Ordering::Release);
    }
}

impl Link for LocalLink {
    fn send_packet(&self, message: &mut Vec<u8>, bulk: BulkBytes<'_>) -> Result<(), LinkError> {
        if bulk.bytes.len() > INLINE && self.forward(message, bulk)? {
            return Ok(());
        }
        self.send_in_place(message, bulk.bytes.len(), |slot| slot.copy_from_slice(bulk.bytes))
    }

    fn send(&self, head: &Head, text: &[u8]) {
        let mut message = head.bytes().to_vec();
        message.extend_from_slice(text);
        let mut out = self.out();
        self.post(&mut out, &message, None);
    }

    fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

fn check_len(message: &[u8]) -> Result<(), FrameError> {
    match message.len() <= MAX_MESSAGE {
        true => Ok(()),
        false => Err(FrameError::Field("the metadata is longer than 60 kB")),
    }
}

/// Thread of a link.
struct Reader {
    link: Arc<LocalLink>,
    inbox: Arc<dyn Inbox>,
    /// Segments of the peer.
    mapped: HashMap<u32, Arc<Mapped>>,
}

impl Reader {
    fn run(mut self) {
        let reason = self.read().err().unwrap_or_else(|| "it has closed the connection".to_owned());
        self.link.close();
        let forwarded = std::mem::take(&mut self.link.out().forwarded);
        drop(forwarded);
        self.inbox.gone(&reason);
    }

    /// Handles messages until the connection ends.
    fn read(&mut self) -> Result<(), String> {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let iov = &mut [IoSliceMut::new(&mut buffer)];
            let found = match recvmsg(&self.link.socket, iov, &mut ancillary, flags) {
                Ok(found) if found.bytes == 0 => return Ok(()),
                Ok(found) => found,
                Err(Errno::AGAIN) => {
                    self.wait()?;
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            if found.flags.contains(ReturnFlags::TRUNC) {
                return Err("a message is longer than 64 kB".to_owned());
            }
            let mut files = ancillary.drain().flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(files) => files.collect::<Vec<_>>(),
                _ => Vec::new(),
            });
            let file = files.next();
            drop(files);
            self.handle(&buffer[..found.bytes], file)?;
        }
    }

    /// Waits for a message, and sends what waits to be sent.
    fn wait(&self) -> Result<(), String> {
        let link = &self.link;
        let waits = link.waits.load(Ordering::Acquire);
        let wanted = if waits { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut polled =
            [PollFd::new(&link.socket, wanted), PollFd::new(&link.wake, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        if polled[1].revents().contains(PollFlags::IN) {
            let _ = rustix::io::read(&link.wake, &mut [0; 8]);
        }
        if link.waits.load(Ordering::Acquire) {
            link.flush();
        }
        Ok(())
    }

    fn handle(&mut self, message: &[u8], file: Option<OwnedFd>) -> Result<(), String> {
        let text = |error: FrameError| error.to_string();
        let bulk = match Head::read(message).map_err(text)? {
            Head::Packet(_) => match frame::parts(message).map_err(text)?.bulk {
                Bulk::Inline([]) => ForeignBytes::from(Vec::new()),
                Bulk::Inline(bulk) => afferent_core::AlignedBytes::from(bulk).into(),
                Bulk::Segment { segment, start, len } => {
                    self.segment(segment, (start, len), file)?
                }
                Bulk::After { .. } => return Err("bulk bytes are missing".to_owned()),
            },
            Head::Release(segment) => {
                self.release(segment);
                return Ok(());
            }
            _ => ForeignBytes::from(Vec::new()),
        };
        self.inbox.receive(message, bulk)
    }

    /// The peer needs a packet in a segment no more.
    fn release(&self, segment: u32) {
        let mut out = self.link.out();
        let forwarded = out.forwarded.release(segment);
        let had_none = forwarded.is_none() && out.segments.release(segment);
        drop(out);
        // This tells another link, whose lock it needs.
        drop(forwarded);
        if had_none {
            self.inbox.has_memory();
        }
    }

    /// Bytes in a segment of the peer, which has come with `file` if it is new.
    fn segment(
        &mut self,
        segment: u32,
        (start, len): (usize, usize),
        file: Option<OwnedFd>,
    ) -> Result<ForeignBytes, String> {
        if let Some(file) = file {
            let map = map(&file)?;
            let link = Arc::downgrade(&self.link);
            self.mapped.insert(segment, Mapped::new(map, file, segment, link));
        }
        let mapped = self.mapped.get(&segment);
        let mapped = mapped.ok_or_else(|| format!("segment {segment} was never sent"))?;
        let used = ForeignBytes::from(Used(mapped.clone()));
        let size = mapped.len();
        used.part(start, len).ok_or_else(|| {
            format!("{len} bytes from {start} do not fit in segment {segment} of {size} bytes")
        })
    }
}

/// Maps a segment of another process for reading.
fn map(file: &OwnedFd) -> Result<Mmap, String> {
    let system = |error: Errno| format!("a segment cannot be read: {error}");
    let seals = fcntl_get_seals(file).map_err(system)?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Err("a segment can change its size".to_owned());
    }
    let size = usize::try_from(fstat(file).map_err(system)?.st_size).unwrap_or(0);
    // SAFETY: its size is sealed, so every mapped byte exists. The peer is a process of the same
    // graph, which does not write to a segment until it is released.
    unsafe { MmapOptions::new().len(size).map(file) }
        .map_err(|error| format!("a segment cannot be mapped: {error}"))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{self, Receiver, Sender},
        time::{Duration, Instant},
    };

    use super::*;
    use crate::frame::{PacketHead, parts};

    #[derive(Debug)]
    enum Event {
        Message(Vec<u8>, ForeignBytes),
        HasMemory,
        Gone,
    }

    struct Events(Sender<Event>);

    impl Inbox for Events {
        fn receive(&self, message: &[u8], bulk: ForeignBytes) -> Result<(), String> {
            self.0.send(Event::Message(message.to_vec(), bulk)).unwrap();
            Ok(())
        }

        fn has_memory(&self) {
            self.0.send(Event::HasMemory).unwrap();
        }

        fn gone(&self, _: &str) {
            drop(self.0.send(Event::Gone));
        }
    }

    fn links() -> [(Arc<LocalLink>, Receiver<Event>); 2] {
        let (one, other) = pair().unwrap();
        [one, other].map(|socket| {
            let (events, received) = mpsc::channel();
            (LocalLink::start(socket, "test", Arc::new(Events(events))).unwrap(), received)
        })
    }

    fn next(events: &Receiver<Event>) -> Event {
        events.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    fn send(link: &LocalLink, post: u64, bulk: &[u8]) -> Result<(), LinkError> {
        let mut message = Vec::new();
        frame::begin_packet(&mut message, &PacketHead { post, ..PacketHead::default() });
        message.extend(b"meta");
        link.send_in_place(&mut message, bulk.len(), |slot| slot.copy_from_slice(bulk))
    }

    #[test]
    fn bulk_bytes_arrive_in_the_message_or_in_shared_memory() {
        let [(one, _), (_, received)] = links();
        for len in [0, 1, INLINE, INLINE + 1, 1_000_000] {
            let bytes: Vec<u8> = (0..len).map(|index| index as u8).collect();
            send(&one, 7, &bytes).unwrap();
            let Event::Message(message, bulk) = next(&received) else { panic!("no message") };
            let head = PacketHead { post: 7, ..PacketHead::default() };
            assert_eq!(Head::read(&message), Ok(Head::Packet(head)));
            assert_eq!((parts(&message).unwrap().meta, bulk.as_slice()), (&b"meta"[..], &*bytes));
            assert!(len == 0 || bulk.as_slice().as_ptr().addr() % 64 == 0, "aligned to 64 bytes");
        }
    }

    #[test]
    fn segments_are_used_again_once_they_are_released() {
        let [(one, told), (other, received)] = links();
        let bulk = vec![1; 100_000];
        let mut held = Vec::new();
        let full = loop {
            match send(&one, 1, &bulk) {
                Ok(()) => {
                    let Event::Message(_, bulk) = next(&received) else { panic!("no message") };
                    held.push(bulk);
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(full, LinkError::Full) && held.len() == segments::MOST);
        drop(held.pop());
        assert!(matches!(next(&told), Event::HasMemory));
        let last = held.last().unwrap().as_slice().as_ptr();
        send(&one, 2, &vec![2; 200_000]).unwrap();
        let Event::Message(_, bulk) = next(&received) else { panic!("no message") };
        assert_eq!((bulk.as_slice().len(), bulk.as_slice()[199_999]), (200_000, 2), "it has grown");
        assert_ne!(bulk.as_slice().as_ptr(), last);
        assert!(held.iter().all(|bulk| bulk.as_slice().iter().all(|byte| *byte == 1)));
        drop(other);
    }

    /// Bytes that are held, as packets hold theirs.
    fn send_held(link: &LocalLink, bulk: &ForeignBytes) {
        let mut message = Vec::new();
        frame::begin_packet(&mut message, &PacketHead::default());
        let hold = || bulk.clone();
        link.send_packet(&mut message, BulkBytes { bytes: bulk.as_slice(), hold: &hold }).unwrap();
    }

    fn next_bulk(events: &Receiver<Event>) -> ForeignBytes {
        let Event::Message(_, bulk) = next(events) else { panic!("no message") };
        bulk
    }

    /// Waits until the only segment of `link` is free.
    fn wait_for_release(link: &LocalLink) {
        let limit = Instant::now() + Duration::from_secs(20);
        while link.out().segments.used() != [false] {
            assert!(Instant::now() < limit, "the segment is not released");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn bytes_of_another_process_are_sent_on_without_a_copy() {
        let [(origin, _), (_relay_in, relay_events)] = links();
        let [(relay_out, _), (_last, last_events)] = links();
        for round in 0..20_u8 {
            let bytes: Vec<u8> = (0..200_000).map(|index| (index % 251) as u8 ^ round).collect();
            send(&origin, 1, &bytes).unwrap();
            let arrived = next_bulk(&relay_events);
            // A part, and the whole twice.
            let part = arrived.part(64, 100_000).unwrap();
            send_held(&relay_out, &part);
            let last_part = next_bulk(&last_events);
            send_held(&relay_out, &arrived);
            send_held(&relay_out, &arrived);
            let last = [next_bulk(&last_events), next_bulk(&last_events)];
            drop((arrived, part));
            assert!(last_part.as_slice() == &bytes[64..100_064]);
            assert!(last.iter().all(|last| last.as_slice() == bytes));
            assert_eq!(origin.out().segments.used(), [true], "the last process needs it");
            drop((last_part, last));
            wait_for_release(&origin);
        }
        assert!(relay_out.out().segments.used().is_empty(), "nothing was copied");
    }

    #[test]
    fn bytes_that_cannot_be_held_are_copied() {
        let [(origin, _), (_relay_in, relay_events)] = links();
        let [(relay_out, _), (_last, last_events)] = links();
        send(&origin, 1, &[5; 100_000]).unwrap();
        let arrived = next_bulk(&relay_events);
        let mut message = Vec::new();
        frame::begin_packet(&mut message, &PacketHead::default());
        let hold = || ForeignBytes::from(arrived.as_slice().to_vec());
        let bulk = BulkBytes { bytes: arrived.as_slice(), hold: &hold };
        relay_out.send_packet(&mut message, bulk).unwrap();
        assert_eq!(next_bulk(&last_events).as_slice(), [5; 100_000]);
        assert_eq!(relay_out.out().segments.used().len(), 1);
    }

    #[test]
    fn the_end_of_a_link_frees_the_segments_that_it_sent_on() {
        let [(origin, _), (_relay_in, relay_events)] = links();
        let [(relay_out, told), (last, last_events)] = links();
        send(&origin, 1, &[5; 100_000]).unwrap();
        send_held(&relay_out, &next_bulk(&relay_events));
        let kept = next_bulk(&last_events);
        assert_eq!(origin.out().segments.used(), [true]);
        last.close();
        assert!(matches!(next(&told), Event::Gone));
        wait_for_release(&origin);
        drop(kept);
    }

    #[test]
    fn loans_are_filled_where_the_receiver_reads_them() {
        let [(one, _), (_, received)] = links();
        let loan = one.loan(100_000).unwrap();
        // SAFETY: it has as many bytes, and nothing else uses them.
        unsafe { loan.as_mut_ptr().write_bytes(9, 100_000) };
        let mut message = Vec::new();
        frame::begin_packet(&mut message, &PacketHead::default());
        assert!(one.send_loan(&mut message.clone(), &loan, 1 << 30).is_err(), "too long");
        let [(other, _), _] = links();
        assert!(other.send_loan(&mut message.clone(), &loan, 10).is_err(), "another link");
        one.send_loan(&mut message.clone(), &loan, 100_000).unwrap();
        assert_eq!(next_bulk(&received).as_slice(), [9; 100_000]);
        assert!(one.send_loan(&mut message, &loan, 100_000).is_err(), "sent already");
        for len in [usize::MAX, usize::MAX / 2] {
            assert!(matches!(one.loan(len), Err(LinkError::Memory { .. })), "{len}");
        }
        // One that is not sent is free again.
        let number = one.loan(1).unwrap().segment;
        assert_eq!(one.loan(1).unwrap().segment, number);
    }

    #[test]
    fn more_messages_than_the_socket_takes_arrive_in_their_order() {
        let [(one, _), (_, received)] = links();
        for post in 0..5000 {
            send(&one, post, &[0; 512]).unwrap();
        }
        for post in 0..5000 {
            let Event::Message(message, _) = next(&received) else { panic!("no message") };
            let Ok(Head::Packet(head)) = Head::read(&message) else { panic!("no packet") };
            assert_eq!(head.post, post);
        }
    }

    #[test]
    fn the_end_of_the_other_process_is_told() {
        let [(one, told), (other, _events)] = links();
        other.close();
        assert!(matches!(next(&told), Event::Gone));
        send(&one, 1, &[]).unwrap();
    }

    #[test]
    fn messages_against_the_protocol_end_the_link() {
        let check = |message: &[u8], expected: &str| {
            let [(one, told), (other, _events)] = links();
            one.try_send(message, None).unwrap();
            drop(other);
            assert!(matches!(next(&told), Event::Gone), "{expected}");
        };
        check(&[0; 3], "short");
        check(&[9; 64], "another version");
        let mut message = Vec::new();
        frame::begin_packet(&mut message, &PacketHead::default());
        frame::end_in_segment(&mut message, 3, (0, 10)).unwrap();
        check(&message, "a segment that was never sent");
    }
}
