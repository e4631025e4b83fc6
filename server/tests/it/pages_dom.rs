//! Reading a page the way a browser does, for the tests of pages.

use scraper::{ElementRef, Html, Selector};

use super::harness::World;

/// A page, parsed.
#[derive(Debug)]
pub(crate) struct Page {
    document: Html,
    pub(crate) path: String,
}

impl World {
    /// A page that answers 200.
    pub(crate) async fn page(&self, path: &str) -> Page {
        self.page_with(path, 200).await
    }

    /// A page that answers with this status.
    pub(crate) async fn page_with(&self, path: &str, status: u16) -> Page {
        let answer = self.get(path).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text);
        let kind = answer.headers["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/html"), "{path} is {kind}");
        Page { document: Html::parse_document(&answer.text), path: path.to_owned() }
    }
}

pub(crate) fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn text_of(element: ElementRef<'_>) -> String {
    element.text().collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Page {
    /// Texts of the elements that a selector finds, white space squeezed.
    pub(crate) fn texts(&self, css: &str) -> Vec<String> {
        self.document.select(&selector(css)).map(text_of).collect()
    }

    /// The text of the only element that a selector finds.
    #[track_caller]
    pub(crate) fn text(&self, css: &str) -> String {
        let texts = self.texts(css);
        assert_eq!(texts.len(), 1, "`{css}` on {} finds {texts:?}", self.path);
        texts[0].clone()
    }

    /// How many elements a selector finds.
    pub(crate) fn count(&self, css: &str) -> usize {
        self.document.select(&selector(css)).count()
    }

    /// Values of an attribute over the elements that a selector finds.
    pub(crate) fn attributes(&self, css: &str, name: &str) -> Vec<String> {
        let css = selector(css);
        let elements = self.document.select(&css);
        elements.filter_map(|element| element.attr(name).map(str::to_owned)).collect()
    }

    /// Cells of the table with this caption, line by line, heads left out.
    #[track_caller]
    pub(crate) fn table(&self, caption: &str) -> Vec<Vec<String>> {
        let (all, caption_of) = (selector("table"), selector("caption"));
        let mut tables = self.document.select(&all).filter(|table| {
            let mut captions = table.select(&caption_of);
            captions.next().is_some_and(|found| text_of(found).starts_with(caption))
        });
        let table = tables.next().unwrap_or_else(|| {
            panic!("no table `{caption}` on {}: {}", self.path, self.main_text())
        });
        table
            .select(&selector("tbody tr, tfoot tr"))
            .map(|row| row.select(&selector("th, td")).map(text_of).collect())
            .collect()
    }

    /// Cells of the lines that a selector finds.
    pub(crate) fn rows(&self, css: &str) -> Vec<Vec<String>> {
        let (lines, cells) = (selector(css), selector("th, td"));
        let row = |row: ElementRef<'_>| row.select(&cells).map(text_of).collect();
        self.document.select(&lines).map(row).collect()
    }

    /// The text of `<main>`, one line per block, for a snapshot.
    pub(crate) fn main_text(&self) -> String {
        let main = self.document.select(&selector("main")).next().expect("every page has a main");
        let mut lines = String::new();
        write_blocks(main, &mut lines);
        lines.lines().map(str::trim_end).filter(|line| !line.is_empty()).fold(
            String::new(),
            |mut text, line| {
                text.push_str(line);
                text.push('\n');
                text
            },
        )
    }

    /// Everything that a page may not have, found in it: inline script and style, handlers,
    /// addresses of elsewhere or of a script.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for element in self.document.select(&selector("*")) {
            let name = element.value().name();
            if name == "style" || (name == "script" && element.attr("src").is_none()) {
                found.push(format!("inline <{name}>"));
            }
            if matches!(name, "iframe" | "object" | "embed" | "base" | "img") {
                found.push(format!("<{name}>"));
            }
            for (attribute, value) in element.value().attrs() {
                let leads = matches!(attribute, "href" | "src" | "action");
                let stays = value.starts_with(['/', '#', '?']) && !value.starts_with("//");
                let elsewhere = leads && !stays;
                if attribute == "style" || attribute.starts_with("on") || elsewhere {
                    found.push(format!("<{name} {attribute}=\"{value}\">"));
                }
            }
        }
        found
    }

    /// Mistakes that keep people from using a page without a mouse or eyes.
    pub(crate) fn barriers(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (css, problem) in [
            ("table:not(:has(caption))", "a table without a caption"),
            ("thead th:not([scope])", "a head of a column without scope"),
            ("tbody th:not([scope])", "a head of a line without scope"),
            ("svg:not([role=img])", "a drawing that is not announced as one"),
            ("svg:not(:has(title))", "a drawing without a title"),
            ("button:not([type])", "a button without a type"),
            ("html:not([lang])", "a page without a language"),
        ] {
            found.extend(std::iter::repeat_n(problem.to_owned(), self.count(css)));
        }
        for (css, name) in [("h1", "h1"), ("main", "main"), ("title", "title")] {
            if self.count(css) != 1 && !(css == "title" && self.count("head > title") == 1) {
                found.push(format!("{} of <{name}>", self.count(css)));
            }
        }
        let mut ids = self.attributes("[id]", "id");
        ids.sort();
        let before = ids.len();
        ids.dedup();
        if ids.len() != before {
            found.push("an id stands twice".to_owned());
        }
        let fields = selector("input:not([type=hidden]), select");
        let unlabelled = self.document.select(&fields).filter(|field| {
            !field.ancestors().filter_map(ElementRef::wrap).any(|e| e.value().name() == "label")
        });
        found.extend(unlabelled.map(|field| format!("no label: {}", field.html())));
        found
    }
}

/// Blocks become lines, cells are separated by bars, everything else runs on.
fn write_blocks(element: ElementRef<'_>, lines: &mut String) {
    for child in element.children() {
        if let Some(text) = child.value().as_text() {
            let begins = text.starts_with(char::is_whitespace);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if (begins || words.is_empty()) && !lines.ends_with([' ', '\n']) && !text.is_empty() {
                lines.push(' ');
            }
            lines.push_str(&words);
            if !words.is_empty() && text.ends_with(char::is_whitespace) {
                lines.push(' ');
            }
            continue;
        }
        let Some(child) = ElementRef::wrap(child) else { continue };
        let name = child.value().name();
        if matches!(name, "select" | "caption" | "button") {
            continue;
        }
        let class = child.attr("class").unwrap_or_default();
        let is_block = matches!(
            name,
            "h1" | "h2"
                | "h3"
                | "p"
                | "div"
                | "section"
                | "article"
                | "tr"
                | "li"
                | "pre"
                | "form"
                | "nav"
                | "dl"
                | "table"
                | "details"
                | "summary"
                | "figure"
                | "figcaption"
        ) || class.split(' ').any(|name| name == "line");
        if is_block && !lines.ends_with('\n') {
            lines.push('\n');
        }
        if name.starts_with('h') && name.len() == 2 {
            lines.push_str("## ");
        }
        write_blocks(child, lines);
        if matches!(name, "td" | "th") {
            let trimmed = lines.trim_end_matches(' ').len();
            lines.truncate(trimmed);
            lines.push_str(" | ");
        }
        if matches!(name, "dt") {
            lines.push_str(": ");
        }
        if is_block && !lines.ends_with('\n') {
            lines.push('\n');
        }
    }
}
