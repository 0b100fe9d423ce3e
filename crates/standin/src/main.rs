//! `switchboard-standin KIND`: runs a stand-in until standard input ends. The first line on standard output is its address; then each
//! line on standard input is one act of a person or of the service as JSON, answered by one line of JSON.

fn main() {
    let kind = std::env::args().nth(1).unwrap_or_default();
    eprintln!("there is no stand-in {kind:?}");
    std::process::exit(2);
}
