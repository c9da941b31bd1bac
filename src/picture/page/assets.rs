//! The template, the style sheet and the script as one file around the data.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const TEMPLATE: &str = include_str!("../../../assets/page/page.html");
const STYLE: &str = include_str!("../../../assets/page/style.css");

/// In the order in which they go into the one script.
const SCRIPTS: [&str; 15] = [
    include_str!("../../../assets/page/decode.js"),
    include_str!("../../../assets/page/state.js"),
    include_str!("../../../assets/page/tokens.js"),
    include_str!("../../../assets/page/values.js"),
    include_str!("../../../assets/page/colours.js"),
    include_str!("../../../assets/page/pen.js"),
    include_str!("../../../assets/page/links.js"),
    include_str!("../../../assets/page/head.js"),
    include_str!("../../../assets/page/model.js"),
    include_str!("../../../assets/page/matrix.js"),
    include_str!("../../../assets/page/neuron.js"),
    include_str!("../../../assets/page/flow.js"),
    include_str!("../../../assets/page/controls.js"),
    include_str!("../../../assets/page/save.js"),
    include_str!("../../../assets/page/main.js"),
];

/// What a served page has more.
const LIVE: &str = include_str!("../../../assets/page/live.js");
const LIVE_STYLE: &str = include_str!("../../../assets/page/live.css");

/// The file around `data`, JSON without any `<`; a `live` one may ask the server it came from.
pub(super) fn page(data: &str, generator: &str, live: bool) -> Vec<u8> {
    // a parser reads line ends as \n before it takes the hash
    let style = format!("{STYLE}{}", if live { LIVE_STYLE } else { "" }).replace("\r\n", "\n");
    let more = if live { LIVE } else { "" };
    let script = format!("\"use strict\";\n(() => {{\n{}{more}}})();\n", SCRIPTS.join("\n"));
    let script = script.replace("\r\n", "\n");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:; \
         base-uri 'none'; form-action 'none'{}",
        hash(&script),
        hash(&style),
        if live { "; connect-src 'self'" } else { "" }
    );
    let parts = [
        ("{policy}", policy.as_str()),
        ("{generator}", &escape(generator)),
        ("{style}", &style),
        ("{data}", data),
        ("{script}", &script),
    ];
    let (mut html, mut rest) = (String::with_capacity(data.len() + (1 << 18)), TEMPLATE);
    for (mark, part) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        html += before;
        html += part;
        rest = after;
    }
    (html + rest).into_bytes()
}

/// As a Content-Security-Policy names an inline element.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_asset_ends_its_element() {
        for asset in SCRIPTS.iter().chain([&STYLE, &LIVE, &LIVE_STYLE]) {
            assert!(!asset.contains("</") && !asset.contains("<!--"), "{asset}");
        }
        for mark in ["{policy}", "{generator}", "{style}", "{data}", "{script}"] {
            assert_eq!(TEMPLATE.matches(mark).count(), 1, "{mark}");
        }
    }
}
