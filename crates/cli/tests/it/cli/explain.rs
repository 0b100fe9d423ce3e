//! Error pages without a network.

use super::{program, run};
use serde_json::Value;

#[test]
fn every_code_is_explained() {
    let all = run(&mut program(&["explain", "--json"])).json();
    let codes = all.as_array().unwrap();
    assert!(codes.len() > 30, "{all}");
    for page in codes {
        let code = page["code"].as_str().unwrap();
        let ended = run(&mut program(&["explain", &code.to_lowercase()]));
        assert!(ended.code == 0 && ended.stdout.starts_with(&format!("# {code}: ")), "{ended:?}");
    }
    let page: Value = run(&mut program(&["explain", "SB0104", "--json"])).json();
    assert!(page["text"].as_str().unwrap().contains("What to do"));
    run(&mut program(&["explain", "SB9999"])).failed(2, "SB0201");
}
