//! Scripts, stylesheet and icon: in the program itself, under addresses that change with their content, so that a browser may keep
//! them for ever.

use std::sync::LazyLock;

/// One file.
#[derive(Debug)]
pub struct Asset {
    /// Its type, as HTTP names it.
    pub content_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
    /// Where it is served: [`ROOT`], a name, a hash of the content.
    pub path: String,
}

/// Below which all assets are served.
pub const ROOT: &str = "/console/assets/";

/// Everything a page may ask for.
#[derive(Debug)]
pub struct Assets {
    /// The stylesheet.
    pub style: Asset,
    /// What pages do beyond what a browser does by itself; they work without it.
    pub script: Asset,
    /// htmx.
    pub htmx: Asset,
    /// Its extension for server-sent events.
    pub sse: Asset,
    /// The icon.
    pub icon: Asset,
}

/// The assets.
pub static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: asset("console", "css", "text/css; charset=utf-8", include_bytes!("../assets/console.css")),
    script: asset("console", "js", SCRIPT, include_bytes!("../assets/console.js")),
    htmx: asset("htmx", "js", SCRIPT, include_bytes!("../vendor/htmx/htmx.min.js")),
    sse: asset("hx-sse", "js", SCRIPT, include_bytes!("../vendor/htmx/hx-sse.min.js")),
    icon: asset("icon", "svg", "image/svg+xml", include_bytes!("../assets/icon.svg")),
});

const SCRIPT: &str = "text/javascript; charset=utf-8";

fn asset(name: &str, ending: &str, content_type: &'static str, bytes: &'static [u8]) -> Asset {
    Asset { content_type, bytes, path: format!("{ROOT}{name}.{:016x}.{ending}", fnv1a(bytes)) }
}

// Tells versions of our own files apart; nothing relies on it being hard to forge.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The asset at this path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Asset> {
    let all = &*ASSETS;
    [&all.style, &all.script, &all.htmx, &all.sse, &all.icon].into_iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_changes_with_its_content() {
        assert_ne!(asset("a", "js", SCRIPT, b"1").path, asset("a", "js", SCRIPT, b"2").path);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8, "FNV-1a as published");
        let style = &ASSETS.style;
        assert_eq!(find(&style.path).map(|found| found.bytes), Some(style.bytes));
        assert!(find("/console/assets/console.css").is_none());
    }

    #[test]
    fn nothing_of_ours_asks_another_host() {
        for asset in [&ASSETS.style, &ASSETS.script, &ASSETS.icon] {
            let text = String::from_utf8_lossy(asset.bytes).replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("://") && !text.contains("url(//"), "{}", asset.path);
        }
    }
}
