//! Lists as CSV, for a spreadsheet.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use protocol::words;
use serde::Serialize;

use crate::error::Result;

words! {
    /// How a list is written.
    #[derive(Default)]
    Format as "format" {
        /// As everywhere in the API.
        #[default]
        Json = "json",
        /// Comma-separated, with a line of names first.
        Csv = "csv",
        /// For engines that show test results.
        Junit = "junit",
    }
}

/// The cursor of the next page, where the body has no place for it.
static NEXT: HeaderName = HeaderName::from_static("x-next-cursor");

/// A list in the wanted format; `rows` are its lines. Only cases can be JUnit.
pub(super) fn answer<L: Serialize, R: Serialize>(
    format: Format,
    name: &str,
    list: &L,
    rows: &[R],
    next: Option<&str>,
) -> Result<Response> {
    match format {
        Format::Json => Ok(Json(list).into_response()),
        Format::Csv => {
            let mut response = download(csv(rows)?, "text/csv; charset=utf-8", name, "csv");
            if let Some(next) = next.and_then(|next| HeaderValue::from_str(next).ok()) {
                response.headers_mut().insert(NEXT.clone(), next);
            }
            Ok(response)
        }
        Format::Junit => Err(crate::error::Error::bad_request(
            format!("`format` is `junit`, which {name} cannot be written as"),
            "`json` and `csv` are possible here; cases can be exported as `junit`",
        )),
    }
}

/// Rows as CSV, with a line of names first.
pub(super) fn csv<R: Serialize>(rows: &[R]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).map_err(anyhow::Error::from)?;
    }
    Ok(writer.into_inner().map_err(|error| anyhow::anyhow!(error.to_string()))?)
}

/// A file to keep, which no browser shows as a page.
pub(super) fn download(body: Vec<u8>, kind: &'static str, name: &str, ending: &str) -> Response {
    let safe: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .collect();
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{safe}.{ending}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// Text from a runner for a cell: what a spreadsheet would take for a formula gets a mark in front.
pub(super) fn cell(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        assert_eq!(cell("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(cell("aten::add"), "aten::add");
    }
}
