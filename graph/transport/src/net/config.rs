//! Configuration of the zenoh session of a machine.

use std::path::Path;

use afferent_spec::{Address, CheckedGraph, Machine};
use serde_json::{Value, json};

use super::{NetOptions, access, peers};

/// Configuration for the machine `here`.
///
/// # Errors
/// The address or the file that cannot be used, and the fix.
pub(super) fn config(
    graph: &CheckedGraph,
    here: usize,
    options: &NetOptions,
) -> Result<zenoh::Config, String> {
    let own = &graph.machines[here];
    let peers = peers(graph, here);
    let mut connect = Vec::new();
    let mut listens = false;
    for peer in &peers {
        let other = &graph.machines[*peer];
        // If both machines have an address to listen on, only the first one listens.
        let (lower, higher) = if here < *peer { (own, other) } else { (other, own) };
        let listener = if lower.listen.is_some() { lower } else { higher };
        if listener.name == own.name {
            listens = true;
        } else {
            connect.push(reachable(listener)?);
        }
    }
    let listen: Vec<_> = own.listen.iter().filter(|_| listens).cloned().collect();
    for address in connect.iter().chain(&listen) {
        guard(address, &own.name, options)?;
    }
    let retry = json!({
        "period_init_ms": 100, "period_max_ms": 1000, "period_increase_factor": 2,
    });
    let mut settings = vec![
        ("mode", json!("peer")),
        ("scouting/multicast/enabled", json!(false)),
        ("scouting/gossip/enabled", json!(false)),
        ("timestamping/enabled", json!(false)),
        ("listen/endpoints", json!(listen)),
        ("connect/endpoints", json!(connect)),
        ("connect/exit_on_failure", json!(false)),
        // Until the other machine is there.
        ("connect/timeout_ms", json!(-1)),
        ("open/return_conditions/connect_scouted", json!(false)),
        ("open/return_conditions/declares", json!(false)),
        ("connect/retry", retry),
        // A machine that is silent for this long cannot be reached.
        ("transport/link/tx/lease", json!(900)),
        ("transport/shared_memory/enabled", json!(false)),
    ];
    if let Some(folder) = &options.keys {
        settings.extend(certificates(folder, &own.name)?);
        settings.push(("access_control", access::rules(graph, here)));
    }
    let mut config = zenoh::Config::default();
    for (key, value) in settings {
        let set = config.insert_json5(key, &value.to_string());
        set.map_err(|error| format!("zenoh refuses {key}: {value}: {error}"))?;
    }
    Ok(config)
}

/// Address under which another machine is reached.
fn reachable(machine: &Machine) -> Result<String, String> {
    let is_one = |listen: &&String| Address::split(listen).is_some_and(|own| !own.is_unspecified());
    let address = machine.address.as_ref().or(machine.listen.as_ref().filter(is_one));
    address.cloned().ok_or_else(|| {
        let name = &machine.name;
        let listen = machine.listen.as_deref().and_then(Address::split);
        let protocol = listen.map_or("quic", |listen| listen.protocol);
        format!("the address of machine {name} is unknown: add --at {name}={protocol}/HOST:PORT")
    })
}

/// Checks that links over `address` are encrypted, or stay on this machine.
fn guard(address: &str, own: &str, options: &NetOptions) -> Result<(), String> {
    let parts = Address::split(address);
    let is_quic = parts.is_some_and(|parts| parts.protocol == "quic");
    let is_loopback = parts.is_some_and(|parts| parts.is_loopback());
    match (&options.keys, is_quic) {
        (Some(_), true) => Ok(()),
        (None, true) => Err(format!(
            "{address} needs certificates: make them with `afferent keys GRAPH`, copy ca.pem, \
             {own}.pem and {own}.key to this machine, and add --keys FOLDER"
        )),
        (_, false) if options.insecure || is_loopback => Ok(()),
        (_, false) => Err(format!(
            "links over {address} are not encrypted: write quic/ and use --keys, or add --insecure \
             in a network that you trust"
        )),
    }
}

/// Settings for the certificates in `folder`.
fn certificates(folder: &Path, own: &str) -> Result<Vec<(&'static str, Value)>, String> {
    let file = |name: String| {
        let path = folder.join(name);
        match std::fs::File::open(&path) {
            Ok(_) => Ok(json!(path)),
            Err(error) => Err(format!(
                "{}: {error}; `afferent keys GRAPH` makes the files of every machine",
                path.display()
            )),
        }
    };
    let authority = file("ca.pem".to_owned())?;
    let (certificate, key) = (file(format!("{own}.pem"))?, file(format!("{own}.key"))?);
    Ok(vec![
        ("transport/link/tls/root_ca_certificate", authority),
        ("transport/link/tls/listen_certificate", certificate.clone()),
        ("transport/link/tls/listen_private_key", key.clone()),
        ("transport/link/tls/connect_certificate", certificate),
        ("transport/link/tls/connect_private_key", key),
        ("transport/link/tls/enable_mtls", json!(true)),
        // Machines change their addresses. The name in the certificate decides what a peer may send.
        ("transport/link/tls/verify_name_on_connect", json!(false)),
    ])
}

/// An error of opening the session, with what to do.
pub(super) fn explain(error: &str) -> String {
    match error.contains("Address already in use") || error.contains("address in use") {
        true => format!(
            "the address of this machine is in use by another program, maybe another run of this \
             graph: {error}"
        ),
        false => format!("the connections to other machines cannot be opened: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unencrypted_links_leave_this_machine_only_on_demand() {
        let check = |address: &str, keys: bool, insecure: bool| {
            let keys = keys.then(|| "keys".into());
            guard(address, "robot", &NetOptions { keys, insecure }).err().unwrap_or_default()
        };
        for address in ["tcp/127.0.0.1:1", "tcp/[::1]:1", "tcp/localhost:1"] {
            assert_eq!(check(address, false, false), "");
        }
        for address in ["tcp/10.0.0.2:1", "tcp/0.0.0.0:1", "tcp/localhost.evil:1"] {
            assert!(check(address, false, false).contains("--insecure"), "{address}");
            assert!(check(address, true, false).contains("--insecure"), "{address}");
            assert_eq!(check(address, false, true), "");
        }
        assert!(check("quic/127.0.0.1:1", false, true).contains("robot.key"));
        assert_eq!(check("quic/10.0.0.2:1", true, false), "");
    }

    #[test]
    fn addresses_of_other_machines() {
        let check = |listen: Option<&str>, address: Option<&str>| {
            let [listen, address] = [listen, address].map(|text| text.map(str::to_owned));
            reachable(&Machine { name: "robot".to_owned(), listen, address, ..Machine::default() })
        };
        let (any, one) = ("quic/0.0.0.0:7450", "quic/10.0.0.2:7450");
        assert_eq!(check(Some(any), Some(one)).unwrap(), one);
        assert_eq!(check(Some(one), None).unwrap(), one);
        let told = check(Some(any), None).unwrap_err();
        assert!(told.contains("--at robot=quic/HOST:PORT"), "{told}");
    }
}
