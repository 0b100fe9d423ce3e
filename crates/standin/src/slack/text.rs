//! mrkdwn as a person reads it, by Slack's documentation. Zero-width characters, which nobody sees, tell marks that are meant from text.

/// What stands in a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Read {
    /// What a person reads.
    pub text: String,
    /// `<@…>`, `<#…>` and `<!…>`: whoever is called.
    pub mentions: Vec<String>,
    /// Targets of links.
    pub links: Vec<String>,
}

const MARKS: [char; 4] = ['*', '_', '~', '`'];

/// Reads mrkdwn that is `verbatim`: nothing is looked for in plain text.
#[must_use]
pub fn read(mrkdwn: &str) -> Read {
    let mut read = Read::default();
    let text = mrkdwn.replace("```", "");
    let mut rest = text.chars().peekable();
    let mut plain = String::new();
    while let Some(c) = rest.next() {
        match c {
            '<' => {
                let tag: String = rest.by_ref().take_while(|c| *c != '>').collect();
                plain.push_str(tag_label(&tag, &mut read));
            }
            // Begins a line of a quotation.
            '>' | '\u{2060}' => {}
            // A look begins and ends beside a zero-width space.
            '\u{200B}' => {
                rest.next_if(|next| MARKS.contains(next));
            }
            mark if MARKS.contains(&mark) && rest.peek() == Some(&'\u{200B}') => {
                rest.next();
            }
            c => plain.push(c),
        }
    }
    read.text = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    read
}

fn tag_label<'a>(tag: &'a str, read: &mut Read) -> &'a str {
    let (target, label) = tag.split_once('|').unwrap_or((tag, tag));
    if target.starts_with(['@', '#', '!']) {
        read.mentions.push(target.to_owned());
    } else {
        read.links.push(target.replace("&amp;", "&"));
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_slack_documents() {
        let read = read(
            "Hi <@U024BE7LH>, see <https://x.test/?a=1&amp;b=2|the page> &lt;!here&gt; \u{200B}*bold*\u{200B} <!channel>\n> said",
        );
        assert_eq!(read.text, "Hi @U024BE7LH, see the page <!here> bold !channel\n said");
        assert_eq!(read.mentions, ["@U024BE7LH", "!channel"]);
        assert_eq!(read.links, ["https://x.test/?a=1&b=2"]);
    }
}
