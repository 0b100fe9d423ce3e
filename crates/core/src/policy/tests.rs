//! What rules mean, as tables.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn policy(text: &str) -> Policy {
    Policy::load(&[("p.toml", text)]).unwrap_or_else(|faults| panic!("{}", listed(&faults)))
}

fn decide(policy: &Policy, params: &Value) -> Decision {
    let Value::Object(params) = params else { panic!("an object") };
    policy.decide(&Call { tool: "messaging.send", agent: "planner", params })
}

/// `allow`, or the verdict with the rule behind a blank.
fn verdict(text: &str, params: &Value) -> String {
    let verdict = decide(&policy(text), params).verdict;
    match verdict.ruling() {
        None => verdict.as_str().into(),
        Some(ruling) => format!("{} {}", verdict.as_str(), ruling.rule.trim_start_matches("p.toml#")),
    }
}

/// The faults of a file as `line field`.
fn faults(text: &str) -> Vec<String> {
    let faults = Policy::load(&[("p.toml", text)]).expect_err("it has faults");
    assert!(faults.iter().all(|fault| fault.message.ends_with('.') && fault.file == "p.toml"), "{faults:?}");
    faults.iter().map(|fault| format!("{} {}", fault.line.unwrap_or(0), fault.field)).collect()
}

fn hello() -> Value {
    json!({ "channel": "slack", "to": "ann@example.com", "body": "Hello" })
}

#[test]
fn no_rule_allows_everything() {
    assert_eq!(decide(&Policy::default(), &hello()).verdict, Verdict::Allow);
    let empty = Policy::load::<&str, &str>(&[]).unwrap();
    assert_eq!(empty.version(), Policy::default().version());
    assert_eq!(empty.version().len(), 12);
}

#[test]
fn each_kind_of_rule() {
    let m = "tool = \"messaging.send\"\n";
    let table = [
        ("deny_tool = [\"messaging.send\"]".to_owned(), hello(), "deny deny_tool:1"),
        (format!("[[deny_tool]]\n{m}name = \"off\"\n"), hello(), "deny deny_tool:off"),
        ("deny_keyword = [\"zebra\", \"hell\"]".into(), hello(), "deny deny_keyword:2"),
        ("deny_keyword = [{ keyword = \"ann@\", name = \"ann\" }]".into(), hello(), "deny deny_keyword:ann"),
        (
            format!("[[deny_tool_param]]\n{m}param = \"to\"\nequals = \"ann@example.com\"\n"),
            hello(),
            "deny deny_tool_param:1",
        ),
        (format!("[[deny_tool_param]]\n{m}param = \"to\"\nequals = \"ann@example\"\n"), hello(), "allow"),
        (
            format!("[[deny_tool_param]]\n{m}param = \"to\"\ncontains = [\"ben\", \"example\"]\n"),
            hello(),
            "deny deny_tool_param:1",
        ),
        (format!("[[deny_tool_param]]\n{m}param = \"channel\"\ncontains = \"hello\"\n"), hello(), "allow"),
        (
            format!("[[allow_tool_param]]\n{m}param = \"to\"\nvalues = [\"ann@example.com\"]\n"),
            hello(),
            "allow",
        ),
        (
            format!("[[allow_tool_param]]\n{m}param = \"to\"\nvalues = [\"ben@example.com\"]\n"),
            hello(),
            "deny allow_tool_param:1",
        ),
        (
            format!("[[allow_tool_param]]\n{m}param = \"kind\"\nvalues = \"direct\"\n"),
            hello(),
            "deny allow_tool_param:1",
        ),
    ];
    verdicts(table);
}

fn verdicts<const N: usize>(table: [(String, Value, &str); N]) {
    for (text, params, expected) in table {
        assert_eq!(verdict(&text, &params), expected, "{text}");
    }
}

#[test]
fn patterns_approvals_and_limits() {
    let m = "tool = \"messaging.send\"\n";
    let table = [
        (
            format!("[[deny_tool_param_matching]]\n{m}param = \"body\"\npattern = '^h.l+o$'\n"),
            hello(),
            "deny deny_tool_param_matching:1",
        ),
        (
            format!(
                "[[deny_tool_param_matching]]\n{m}param = \"to\"\npattern = '^[a-z]+@example\\.com$'\nnegate = true\n"
            ),
            hello(),
            "allow",
        ),
        (
            format!(
                "[[deny_tool_param_matching]]\n{m}param = \"to\"\npattern = '^[a-z]+@example\\.org$'\nnegate = true\n"
            ),
            hello(),
            "deny deny_tool_param_matching:1",
        ),
        (
            format!(
                "[[deny_tool_param_matching]]\n{m}param = \"idempotency_key\"\npattern = '.'\nnegate = true\n"
            ),
            hello(),
            "deny deny_tool_param_matching:1",
        ),
        (format!("[[require_approval]]\n{m}"), hello(), "hold require_approval:1"),
        (format!("[[require_approval]]\n{m}param = \"channel\"\nequals = \"email\"\n"), hello(), "allow"),
        (
            format!(
                "[[require_approval]]\n{m}param = \"channel\"\nequals = [\"slack\", \"console\"]\nnegate = true\n"
            ),
            hello(),
            "allow",
        ),
        (
            format!("[[require_approval]]\n{m}param = \"channel\"\nequals = \"console\"\nnegate = true\n"),
            hello(),
            "hold require_approval:1",
        ),
        (
            format!("[[require_approval]]\n{m}param = \"body\"\npattern = 'HELLO'\n"),
            hello(),
            "hold require_approval:1",
        ),
        (format!("[[rate_limit_tool]]\n{m}max_calls = 1\ninterval_secs = 1\n"), hello(), "allow"),
    ];
    verdicts(table);
}

#[test]
fn only_the_literal_text_is_urgent_and_nothing_else_changes() {
    let m = "tool = \"messaging.send\"\n";
    let rules = policy(&format!("[[urgent]]\n{m}param = \"body\"\ncontains = \"is DOWN\"\n"));
    for (body, urgent) in
        [("shop is DOWN", true), ("shop is down", false), ("shop is **DOWN**", false), ("", false)]
    {
        let decision = decide(&rules, &json!({ "channel": "slack", "to": "a", "body": body }));
        assert_eq!((decision.urgent, decision.verdict), (urgent, Verdict::Allow), "{body}");
    }
    assert_eq!(faults(&format!("[[urgent]]\n{m}")), ["1 urgent.param", "1 urgent"]);
    let sentence = rules.rules()[0].sentence();
    assert_eq!(sentence, "messaging.send is not held back by quiet hours when `body` contains \"is DOWN\".");
}

#[test]
fn a_refusal_beats_an_approval_and_the_first_rule_decides() {
    let text = "[[require_approval]]\ntool = \"messaging.send\"\n\
        [[deny_tool_param]]\ntool = \"messaging.send\"\nparam = \"body\"\nequals = \"no\"\n";
    assert_eq!(verdict(text, &hello()), "hold require_approval:1");
    assert_eq!(verdict(text, &json!({ "body": "no" })), "deny deny_tool_param:1");
    let files = [("b.toml", "deny_keyword = [\"hello\"]"), ("a.toml", "deny_keyword = [\"ann\"]")];
    let decision = decide(&Policy::load(&files).unwrap(), &hello());
    assert_eq!(&*decision.verdict.ruling().unwrap().rule, "a.toml#deny_keyword:1", "files by name");
}

#[test]
fn tricks_do_not_slip_past_a_prohibition() {
    let word = "deny_keyword = [\"wire transfer\", \"@everyone\", \"gehälter\"]";
    for body in [
        "WIRE\u{A0}TRANSFER now",
        "ｗｉｒｅ ｔｒａｎｓｆｅｒ",
        "wi\u{AD}re tran\u{200D}sfer",
        "w\u{456}re tr\u{430}nsf\u{435}r",
        "w\u{301}ire\n\n\ttransfer",
        "wi**re tran**sfer",
        "wire trans<b></b>fer",
        "&#x77;ire transfer",
        "[wire](https://x.example) transfer",
        "@every@everyoneone",
        "&commat;everyone",
        "@\u{200B}everyone",
        "die GEHÄLTER",
        "die geha\u{308}lter",
        "die gehalter",
    ] {
        assert!(verdict(word, &json!({ "body": body })).starts_with("deny"), "{body:?}");
    }
    assert_eq!(verdict(word, &json!({ "body": "wires and transfers" })), "allow");
    let to = "[[deny_tool_param]]\ntool = \"messaging.send\"\nparam = \"to\"\nequals = [\"+43 660 12345\", \"ann_lee\"]\n";
    for handle in ["+4366012345", "0043 (660) 123-45", "＋４３66012345", "Ann_Lee", " ann_lee "] {
        assert!(verdict(to, &json!({ "to": handle })).starts_with("deny"), "{handle}");
    }
    assert_eq!(verdict(to, &json!({ "to": "annlee" })), "allow", "an address is no Markdown");
}

#[test]
fn patterns_see_every_form() {
    let matching = |pattern: &str| {
        format!(
            "[[deny_tool_param_matching]]\ntool = \"messaging.send\"\nparam = \"body\"\npattern = '{pattern}'\n"
        )
    };
    for (pattern, body) in [
        (r"\bIBAN\b", "my ＩＢＡＮ"),
        (r"[A-Z]{2}\d{6}", "at\u{200B}１２３４５６"),
        ("geh[äa]lter", "GEHÄLTER"),
        ("gehälter", "g\u{435}hälter"),
        ("^привет", "ПРИ\u{200D}ВЕТ"),
        ("pass.?word", "pass__word__"),
    ] {
        assert!(
            verdict(&matching(pattern), &json!({ "body": body })).starts_with("deny"),
            "{pattern} {body}"
        );
    }
}

#[test]
fn normalisation_never_widens_what_permits() {
    let listed =
        "[[allow_tool_param]]\ntool = \"messaging.send\"\nparam = \"to\"\nvalues = [\"ann@example.com\"]\n";
    let negated = "[[deny_tool_param_matching]]\ntool = \"messaging.send\"\nparam = \"to\"\n\
        pattern = '^ann@example\\.com$'\nnegate = true\n";
    let approved = "[[require_approval]]\ntool = \"messaging.send\"\nparam = \"to\"\nequals = \"ann@example.com\"\nnegate = true\n";
    for text in [listed, negated, approved] {
        assert_eq!(verdict(text, &hello()), "allow", "{text}");
        for to in [
            "Ann@example.com",
            "ann@ex\u{430}mple.com",
            "ann@example.com ",
            "ann@example\u{200B}.com",
            "ａnn@example.com",
        ] {
            assert_ne!(verdict(text, &json!({ "to": to })), "allow", "{text} {to:?}");
        }
        for absent in [json!({}), json!({ "to": null })] {
            assert_ne!(verdict(text, &absent), "allow", "{text}");
        }
    }
}

#[test]
fn saying_nothing_does_not_evade_a_prohibited_default() {
    let rule =
        |kind: &str, more: &str| format!("[[{kind}]]\ntool = \"messaging.send\"\nparam = \"kind\"\n{more}\n");
    let denied = rule("deny_tool_param", "equals = \"direct\"");
    for params in [json!({}), json!({ "kind": null }), json!({ "kind": "DIRECT" })] {
        assert_eq!(verdict(&denied, &params), "deny deny_tool_param:1", "{params}");
    }
    assert_eq!(verdict(&denied, &json!({ "kind": "channel" })), "allow");
    let negated = rule("deny_tool_param_matching", "pattern = '^direct$'\nnegate = true");
    assert_eq!(verdict(&negated, &json!({})), "deny deny_tool_param_matching:1", "doubt never permits");
}

#[test]
fn what_is_no_text_is_looked_at_as_json() {
    let rule =
        "[[deny_tool_param]]\ntool = \"messaging.send\"\nparam = \"deadline_ms\"\nequals = [0, true]\n";
    assert_eq!(verdict(rule, &json!({ "deadline_ms": 0 })), "deny deny_tool_param:1");
    assert_eq!(verdict(rule, &json!({ "deadline_ms": true })), "deny deny_tool_param:1");
    assert_eq!(verdict(rule, &json!({ "deadline_ms": 10 })), "allow");
    assert_eq!(
        verdict("deny_keyword = [\"secret\"]", &json!({ "body": { "a": ["SECRET"] } })),
        "deny deny_keyword:1"
    );
}

#[test]
fn a_denial_says_which_rule_and_nothing_of_its_values() {
    let text = "[[deny_keyword]]\nkeyword = \"CANARY\"\nname = \"birds\"\nreason = \"No birds here.\"\n";
    let verdict = decide(&policy(text), &json!({ "body": "a canary sings" })).verdict;
    let ruling = verdict.ruling().unwrap();
    let told = ruling.to_string();
    assert_eq!(
        told,
        "The rule p.toml#deny_keyword:birds refuses this call because of `body`: No birds here."
    );
    let unknown = decide(&policy(text), &json!({ "canary": "canary" })).verdict;
    let told = format!("{} {:?}", unknown.ruling().unwrap(), unknown);
    assert!(!told.to_lowercase().contains("canary"), "{told}");
}

#[test]
fn limits_are_named_whatever_the_verdict_and_count_spellings_together() {
    let text = "deny_keyword = [\"no\"]\n[[rate_limit_tool]]\ntool = \"messaging.send\"\nmax_calls = 3\ninterval_secs = 1.5\n\
        [[rate_limit_tool]]\ntool = \"messaging.send\"\nmax_calls = 9\ninterval_secs = 60\nper = \"recipient\"\nname = \"each\"\n";
    let policy = policy(text);
    for body in ["yes", "no"] {
        let limits = decide(&policy, &json!({ "body": body })).limits;
        assert_eq!(limits[0].rate, Rate { max_calls: 3, interval_ms: 1500, per: Per::Agent });
        assert_eq!((&*limits[1].rule, limits[1].rate.per), ("p.toml#rate_limit_tool:each", Per::Recipient));
    }
    let subject = |to: &str| {
        let Value::Object(params) = json!({ "channel": "Signal", "to": to }) else { unreachable!() };
        let call = Call { tool: "messaging.send", agent: "planner", params: &params };
        policy.decide(&call).limits.iter().map(|limit| limit.subject(&call)).collect::<Vec<_>>()
    };
    assert_eq!(
        subject("+43 660 12345"),
        [vec!["planner".to_owned()], vec!["signal".into(), "+4366012345".into()]]
    );
    assert_eq!(subject("0043660/12345"), subject("+43 660 12345"));
}

#[test]
fn explaining_says_what_each_rule_thinks() {
    let policy = policy(
        "deny_keyword = [\"hello\"]\n[[rate_limit_tool]]\ntool = \"messaging.send\"\nmax_calls = 1\ninterval_secs = 60\n\
         [[require_approval]]\ntool = \"messaging.send\"\nparam = \"to\"\ncontains = \"ann\"\n",
    );
    let params = hello();
    let call = |tool| Call { tool, agent: "a", params: params.as_object().unwrap() };
    let outcomes =
        |tool| policy.explain(&call(tool)).into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>();
    assert_eq!(
        outcomes("messaging.send"),
        [Outcome::Denied(Some("body")), Outcome::Counted, Outcome::Held(Some("to"))]
    );
    assert_eq!(outcomes("other"), [Outcome::Denied(None), Outcome::OtherTool, Outcome::OtherTool]);
    let sentences: Vec<_> = policy.rules().iter().map(Rule::sentence).collect();
    assert_eq!(
        sentences,
        [
            "No parameter of any tool may contain \"hello\".",
            "messaging.send may be called once in 60 s by each agent.",
            "messaging.send waits for a person's approval when `to` contains \"ann\"."
        ]
    );
}

/// The rule that says whom a question goes to, without its file.
fn escalated(text: &str, params: &Value) -> Option<String> {
    let found = decide(&policy(text), params).escalation?;
    Some(found.rule.trim_start_matches("p.toml#escalate:").to_owned())
}

#[test]
fn the_first_rule_that_matches_says_whom_a_question_goes_to() {
    let rungs =
        "tool = \"messaging.send\"\nrungs = [{ after = \"10m\", channel = \"email\", to = \"a@b.c\" }]\n";
    let some = format!("[[escalate]]\n{rungs}param = \"to\"\ncontains = \"ben\"\n");
    let others = format!("[[escalate]]\n{rungs}param = \"channel\"\nequals = \"console\"\nnegate = true\n");
    let all = format!("{some}{others}[[escalate]]\nname = \"rest\"\n{rungs}");
    let call = |name: &str, value: Value| {
        let mut call = hello();
        call[name] = value;
        call
    };
    for (text, params, expected) in [
        (&some, hello(), None),
        (&some, call("to", json!("ＢＥＮ")), Some("1")),
        (&all, call("to", json!("ben")), Some("1")),
        (&all, hello(), Some("2")),
        (&all, call("channel", json!("console")), Some("rest")),
        (&all, call("message_kind", json!("notice")), None),
        (&all, call("message_kind", json!("question")), Some("2")),
        (&all, call("message_kind", Value::Null), Some("2")),
    ] {
        assert_eq!(escalated(text, &params).as_deref(), expected, "{text}\n{params}");
        assert_eq!(decide(&policy(text), &params).verdict, Verdict::Allow, "it prohibits nothing");
    }
    let denied = format!("deny_tool = [\"messaging.send\"]\n{all}");
    assert_eq!(verdict(&denied, &hello()), "deny deny_tool:1");
}

#[test]
fn a_chain_is_told_in_a_sentence() {
    let text = "[[escalate]]\ntool = \"messaging.send\"\nparam = \"to\"\nequals = \"ann\"\nthen = \"deny\"\nrungs = [\
        { after = \"90s\", channel = \"slack\", to = \"U2\" }, { after = \"1h\", propose_task = true }]\n";
    let policy = policy(text);
    let sentence = "A question by messaging.send that nobody answers goes on when `to` is \"ann\": after 90s to U2 on slack, \
                    after 1h as a task proposal; with no answer in time: deny.";
    assert_eq!(policy.rules()[0].sentence(), sentence);
    let ladder = policy.rules()[0].ladder.as_ref().unwrap();
    assert_eq!(ladder.rungs.iter().map(|step| step.after_ms).collect::<Vec<_>>(), [90_000, 3_600_000]);
    let params = json!({ "channel": "slack", "to": "ann", "body": "?" });
    let call = Call { tool: "messaging.send", agent: "a", params: params.as_object().unwrap() };
    assert_eq!(policy.explain(&call)[0].1, Outcome::Escalated(Some("to")));
    let case = "[[case]]\nname = \"x\"\ncall = { to = \"ann\" }\nexpect = \"allow\"\nescalate = \"p.toml#escalate:1\"\n\
        [[case]]\nname = \"y\"\ncall = { to = \"ben\" }\nexpect = \"allow\"\nescalate = \"\"\n\
        [[case]]\nname = \"z\"\ncall = { to = \"ann\" }\nexpect = \"allow\"\nescalate = \"\"\n";
    let cases = cases::load(&[("p.test.toml", case)], &policy).unwrap();
    assert_eq!(cases.iter().map(|case| case.run(&policy).ok).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn faults_of_chains_name_line_and_field() {
    let rung = "{ after = \"1m\", channel = \"a\", to = \"b\" }";
    for (rungs, expected) in [
        (String::new(), "1 escalate.rungs"),
        ("rungs = []".into(), "3 escalate.rungs"),
        ("rungs = \"10m\"".into(), "3 escalate.rungs"),
        (format!("rungs = [{}]", [rung; 9].join(", ")), "3 escalate.rungs"),
        (format!("rungs = [{rung},\n{rung}]"), "4 escalate.rungs.after"),
        ("rungs = [5]".into(), "3 escalate.rungs"),
        ("rungs = [{ after = \"1m\" }]".into(), "3 escalate.rungs"),
        ("rungs = [{ after = \"1m\", channel = \"a\" }]".into(), "3 escalate.rungs"),
        ("rungs = [{ after = \"1m\", propose_task = false }]".into(), "3 escalate.rungs"),
        ("rungs = [{ after = \"1m\", to = \"b\", propose_task = true }]".into(), "3 escalate.rungs"),
        ("rungs = [{ after = \"1m\", chanel = \"a\" }]".into(), "3 escalate.rungs.chanel"),
        ("rungs = [{ channel = \"a\", to = \"b\" }]".into(), "3 escalate.rungs.after"),
        ("rungs = [{ after = 60, channel = \"a\", to = \"b\" }]".into(), "3 escalate.rungs.after"),
        ("rungs = [{ after = \"0s\", channel = \"a\", to = \"b\" }]".into(), "3 escalate.rungs.after"),
        ("rungs = [{ after = \"8d\", channel = \"a\", to = \"b\" }]".into(), "3 escalate.rungs.after"),
        ("rungs = [{ after = \"1m\", channel = \"A B\", to = \"b\" }]".into(), "3 escalate.rungs.channel"),
        ("rungs = [{ after = \"1m\", channel = \"a\", to = \"\" }]".into(), "3 escalate.rungs.to"),
        (format!("rungs = [{rung}]\nthen = \"allow\""), "4 escalate.then"),
        (format!("rungs = [{rung}]\nequals = \"x\""), "1 escalate.param"),
    ] {
        let text = format!("[[escalate]]\ntool = \"messaging.send\"\n{rungs}");
        assert!(faults(&text).contains(&expected.to_owned()), "{rungs}: {:?}", faults(&text));
    }
}

#[test]
fn faults_name_line_and_field() {
    let m = "tool = \"messaging.send\"";
    let table = [
        ("deny_tols = []".to_owned(), "1 deny_tols"),
        ("\ndeny_tool = \"messaging.send\"".into(), "2 deny_tool"),
        ("deny_tool = [1]".into(), "1 deny_tool"),
        ("deny_tool = [\n\"messaging.sent\"]".into(), "2 deny_tool.tool"),
        ("deny_keyword = [\"\"]".into(), "1 deny_keyword"),
        ("deny_keyword = [\"\u{200B}\"]".into(), "1 deny_keyword"),
        ("deny_keyword = [\" as\"]".into(), "1 deny_keyword"),
        ("[deny_tool_param]\nparam = 1".into(), "1 deny_tool_param"),
        ("[[deny_tool_param]]\nparam = \"to\"\nequals = \"x\"".into(), "1 deny_tool_param.tool"),
        (format!("[[deny_tool_param]]\n{m}\nparam = \"two\"\nequals = \"x\""), "3 deny_tool_param.param"),
        (format!("[[deny_tool_param]]\n{m}\nparam = \"to\""), "1 deny_tool_param"),
        (
            format!("[[deny_tool_param]]\n{m}\nparam = \"to\"\nequals = \"x\"\ncontains = \"y\""),
            "1 deny_tool_param",
        ),
        (
            format!("[[deny_tool_param]]\n{m}\nparam = \"to\"\nequal = \"x\"\nequals = \"x\""),
            "4 deny_tool_param.equal",
        ),
        (format!("[[deny_tool_param]]\n{m}\nparam = \"to\"\nequals = []"), "4 deny_tool_param.equals"),
        (format!("[[deny_tool_param]]\n{m}\nparam = \"to\"\nequals = [1.5]"), "4 deny_tool_param.equals"),
        (format!("[[allow_tool_param]]\n{m}\nparam = \"to\""), "1 allow_tool_param.values"),
        (
            format!("[[deny_tool_param_matching]]\n{m}\nparam = \"to\"\npattern = '('"),
            "4 deny_tool_param_matching.pattern",
        ),
        (
            format!("[[deny_tool_param_matching]]\n{m}\nparam = \"to\"\npattern = ''"),
            "4 deny_tool_param_matching.pattern",
        ),
        (
            format!("[[require_approval]]\n{m}\nparam = \"to\"\npattern = 'a'\nnegate = 1"),
            "5 require_approval.negate",
        ),
        (format!("[[require_approval]]\n{m}\nnegate = true"), "1 require_approval.param"),
        (format!("[[deny_tool]]\n{m}\nname = \"7\""), "3 deny_tool.name"),
        (format!("[[deny_tool]]\n{m}\nreason = \"two\\nlines\""), "3 deny_tool.reason"),
        (format!("[[deny_tool]]\n{m}\nname = \"a\"\n[[deny_tool]]\n{m}\nname = \"a\""), "4 deny_tool.name"),
        ("a = 1\nb = ".into(), "2 "),
    ];
    for (text, expected) in table {
        assert_eq!(faults(&text).first().map(String::as_str), Some(expected), "{text}");
    }
    for number in ["0", "-1", "1.5", "nan", "inf", "\"1\"", "1000001", "99999999999999999999999"] {
        let text = format!("[[rate_limit_tool]]\n{m}\nmax_calls = {number}\ninterval_secs = 1");
        assert_eq!(faults(&text).len(), 1, "{text}");
    }
    for number in ["0", "-1", "0.0001", "nan", "-nan", "inf", "-inf", "1e300", "true", "2678401"] {
        let text = format!("[[rate_limit_tool]]\n{m}\nmax_calls = 1\ninterval_secs = {number}");
        assert_eq!(faults(&text), ["4 rate_limit_tool.interval_secs"], "{text}");
    }
    let text = format!("[[rate_limit_tool]]\n{m}\nmax_calls = 1\ninterval_secs = 1\nper = \"person\"");
    assert_eq!(faults(&text), ["5 rate_limit_tool.per"]);
}

#[test]
fn all_faults_are_told_at_once_and_sizes_are_bounded() {
    assert_eq!(faults("x = 1\ndeny_tool = [\"y\"]\n[[require_approval]]\nparam = 3\n").len(), 5);
    let long = format!("deny_keyword = [\"{}\"]", "x".repeat(VALUE_BYTES_MAX + 1));
    assert_eq!(faults(&long), ["1 deny_keyword"]);
    let large = "#".repeat(FILE_BYTES_MAX + 1);
    assert_eq!(faults(&large), ["0 "]);
    let many = format!("deny_keyword = [{}]", "\"x\",".repeat(RULES_MAX + 1));
    let told = listed(&Policy::load(&[("p.toml", many)]).unwrap_err());
    assert!(told.contains("at most 2000 rules"), "{told}");
    let named = listed(&Policy::load(&[("p\u{202E}.toml", "")]).unwrap_err());
    assert!(named.contains("letters, digits") && !named.contains('\u{202E}'), "{named}");
}

#[test]
fn the_version_is_of_names_and_texts() {
    let version = |files: &[(&str, &str)]| Policy::load(files).unwrap().version().to_owned();
    let (a, b) = (("a.toml", "deny_keyword = [\"x\"]"), ("b.toml", ""));
    assert_eq!(version(&[a, b]), version(&[b, a]));
    assert_ne!(version(&[a]), version(&[a, b]));
    assert_ne!(version(&[a]), version(&[("c.toml", a.1)]));
}

#[test]
fn cases_say_what_is_expected() {
    let policy = policy("deny_keyword = [\"hello\"]");
    let text = "[[case]]\nname = \"greeting\"\ncall = { channel = \"slack\", to = \"ann\", body = \"HELLO\", deadline_ms = 5 }\n\
        expect = \"deny\"\nrule = \"p.toml#deny_keyword:1\"\n\
        [[case]]\nname = \"wrong\"\ncall = { agent = \"b\", body = \"bye\" }\nexpect = \"hold\"\n";
    let cases = cases::load(&[("p.test.toml", text)], &policy).unwrap();
    assert!(cases[0].run(&policy).ok && cases[0].params["deadline_ms"] == 5);
    let ran = cases[1].run(&policy);
    assert!(!ran.ok && ran.got == Verdict::Allow && cases[1].line == 6 && cases[1].agent == "b");
    let bad =
        "[[case]]\nnam = \"x\"\ncall = { boddy = \"x\" }\nexpect = \"maybe\"\nrule = \"none\"\n[cases]\n";
    let told = listed(&cases::load(&[("p.test.toml", bad)], &policy).unwrap_err());
    for expected in [
        "line 2, case.nam:",
        "line 3, case.call.boddy:",
        "line 4, case.expect:",
        "line 5, case.rule:",
        "case.name:",
        "line 6, cases:",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

/// The files that the guide shows, by name.
fn guide() -> Vec<(String, String)> {
    let page = include_str!("../../../../docs/guide/policy.md");
    let mut files: Vec<(String, String)> = Vec::new();
    for line in page.lines() {
        let named = line.strip_prefix("`policies/").and_then(|rest| rest.split_once('`'));
        if let Some((name, _)) = named {
            files.push((name.into(), String::new()));
        } else if let (Some((_, text)), Some(code)) = (files.last_mut(), line.strip_prefix("    ")) {
            text.extend([code, "\n"]);
        } else if line.starts_with('#') && !files.is_empty() {
            break;
        }
    }
    files
}

#[test]
fn the_guides_examples_are_rules_and_their_cases_hold() {
    let (cases, rules): (Vec<_>, Vec<_>) =
        guide().into_iter().partition(|(name, _)| name.ends_with(cases::SUFFIX));
    let policy = Policy::load(&rules).unwrap_or_else(|faults| panic!("{}", listed(&faults)));
    assert!(policy.rules().len() >= 8, "{}", policy.rules().len());
    let cases = cases::load(&cases, &policy).unwrap_or_else(|faults| panic!("{}", listed(&faults)));
    assert!(cases.len() >= 3);
    for case in cases {
        let ran = case.run(&policy);
        assert!(ran.ok, "{}: {ran:?}", case.name);
    }
    let shown = json!({ "channel": "slack", "to": "#ops", "body": "ＷＩＲＥ trаns**fer**" });
    let verdict = decide(&policy, &shown).verdict;
    assert_eq!(&*verdict.ruling().expect("refused").rule, "words.toml#deny_keyword:fraud");
}

proptest! {
    #[test]
    fn any_file_is_rules_or_faults(text in "\\PC{0,200}|(\\[\\[(deny_tool|require_approval)\\]\\]\n|tool = \"messaging.send\"\n|param = \"to\"\n|pattern = '[a(*]{0,3}'\n|negate = true\n){0,8}") {
        if let Ok(policy) = Policy::load(&[("p.toml", &text)]) {
            let _ = decide(&policy, &hello());
        }
        let _ = cases::load(&[("p.test.toml", &text)], &Policy::default());
    }

    #[test]
    fn more_rules_never_permit_more(body in "\\PC{0,60}", word in "[a-z]{1,3}") {
        let one = policy("[[require_approval]]\ntool = \"messaging.send\"\nparam = \"body\"\npattern = '[aeiou]{2}'\n");
        let both = Policy::load(&[
            ("p.toml", "[[require_approval]]\ntool = \"messaging.send\"\nparam = \"body\"\npattern = '[aeiou]{2}'\n".to_owned()),
            ("q.toml", format!("deny_keyword = [\"{word}\"]")),
        ]).unwrap();
        let params = json!({ "body": body });
        let rank = |policy: &Policy| match decide(policy, &params).verdict {
            Verdict::Allow => 0,
            Verdict::Hold(_) => 1,
            Verdict::Deny(_) => 2,
        };
        prop_assert!(rank(&both) >= rank(&one));
        if body.contains(&word) {
            prop_assert_eq!(rank(&both), 2);
        }
    }
}
