//! Stub of [`link`](crate::link) for builds without the feature: every call fails.

use std::{borrow::Cow, time::Duration};

use afferent_graph::{NodeError, Service, Services};

use crate::{endpoint::Endpoint, faults::InboxFaults};

/// Sessions with zenoh routers, which the nodes of a program share.
#[derive(Default)]
pub struct Sessions(());

impl Service for Sessions {
    const NAME: &'static str = "ROS 2 sessions";
    const HINT: &'static str = "add `Sessions::default()` with `App::service`";
}

/// A publisher; never constructed.
pub(crate) enum Publisher {}

/// A subscriber; never constructed.
pub(crate) enum Subscriber {}

/// A message; never constructed.
pub(crate) enum Received {}

fn no_link(endpoint: &Endpoint) -> NodeError {
    NodeError::Device {
        name: endpoint.router.clone(),
        reason: "this build has no connection to ROS 2; build with --features ros2".to_owned(),
    }
}

/// Checks that this build has connections.
///
/// # Errors
/// Always.
pub(crate) fn check(endpoint: &Endpoint) -> Result<(), NodeError> {
    Err(no_link(endpoint))
}

impl Publisher {
    pub(crate) fn open(endpoint: &Endpoint, _: &Services) -> Result<Self, NodeError> {
        Err(no_link(endpoint))
    }

    pub(crate) fn send(&mut self, _: Vec<u8>, _: i64) {
        match *self {}
    }
}

impl Subscriber {
    pub(crate) fn open(endpoint: &Endpoint, _: &Services) -> Result<Self, NodeError> {
        Err(no_link(endpoint))
    }

    pub(crate) fn receive(&self, _: Duration) -> Option<Received> {
        match *self {}
    }

    pub(crate) fn faults(&self) -> InboxFaults {
        match *self {}
    }
}

impl Received {
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        match *self {}
    }

    pub(crate) fn sent_unix_ns(&self) -> i64 {
        match *self {}
    }
}
