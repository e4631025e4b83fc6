//! The OpenAPI document, made from the annotations on the handlers, and the page that shows it.
//! The page's assets are in the program, so it needs no other host.

use axum::Router;
use protocol::ingest_api::ErrorBody;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::Components;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, RefOr};
use utoipa::{PartialSchema as _, ToSchema};
use utoipa_swagger_ui::SwaggerUi;

use crate::app::AppState;

/// Where the document is.
pub const DOCUMENT_PATH: &str = "/api/v1/openapi.json";
/// Where the page is.
pub const PAGE_PATH: &str = "/api/docs";

/// Adds what every operation has in common: who may call, and what an error looks like.
pub fn with_errors(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("torchtpu-conformance")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Ingest, judgement and release gate of the operator-coverage conformance service. \
             docs/api.md says what the words mean.",
        ))
        .build();
    let components = document.components.get_or_insert_with(Components::new);
    let mut nested = Vec::new();
    ErrorBody::schemas(&mut nested);
    components.schemas.extend(nested);
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("token", SecurityScheme::Http(token));
    let error = |description: &str| {
        let reference = utoipa::openapi::Ref::from_schema_name(ErrorBody::name());
        let content = ContentBuilder::new().schema(Some(reference)).build();
        let response =
            ResponseBuilder::new().description(description).content("application/json", content);
        RefOr::T(response.build())
    };
    for (path, item) in &mut document.paths.paths {
        if !path.starts_with("/api/") {
            continue;
        }
        let operations = [&mut item.get, &mut item.put, &mut item.post];
        for operation in operations.into_iter().flatten() {
            let responses = &mut operation.responses.responses;
            responses.insert("4XX".to_owned(), error("Refused; the body says why"));
            responses.insert("5XX".to_owned(), error("Failed; the body says where to look"));
        }
    }
    document
}

/// The document and its page.
pub fn page(document: OpenApi) -> Router<AppState> {
    SwaggerUi::new(PAGE_PATH).url(DOCUMENT_PATH, document).into()
}
