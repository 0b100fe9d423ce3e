//! Proxies of the environment: not for a hub on this machine, as usual for one elsewhere.

use super::{Hub, program, run, temp};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use switchboard_testkit::PATIENCE;

/// The variables that name a proxy, in all their spellings.
fn through(command: &mut Command, proxy: &str) {
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, proxy);
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
}

#[test]
fn a_hub_on_this_machine_is_reached_past_the_proxy() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    // Bound and never accepted from: whoever asks it gets no answer.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let mut command = hub.command(&["status", "--json"]);
    through(&mut command, &format!("http://{}", proxy.local_addr().unwrap()));
    assert!(run(&mut command).json()["version"].is_string());
    assert!(proxy.accept().is_err(), "nobody came to the proxy");
}

#[test]
fn a_hub_elsewhere_is_reached_through_the_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let (line_read, asked) = mpsc::channel();
    // It waits for ever if nobody comes, and ends with the tests.
    std::thread::spawn(move || {
        let (stream, _) = proxy.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line_read.send(line).unwrap();
    });
    let mut command = program(&["status", "--url", "http://hub.invalid:8484", "--token", "t"]);
    through(&mut command, &address);
    run(&mut command).failed(4, "SB0202");
    let asked = asked.recv_timeout(PATIENCE).expect("the proxy is asked in time");
    assert!(asked.contains(" http://hub.invalid:8484/"), "{asked}");
}
