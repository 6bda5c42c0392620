//! topic PORT: two routes, whose handlers read the query by axum's extractor, and a header.

use axum::{
    extract::Query,
    http::{HeaderMap, Method},
    routing::{any, get},
    Json, Router,
};
use serde::Deserialize;
use serde_json::{json, Value};

#[derive(Deserialize)]
struct Asked {
    id: Option<String>,
    topic_id: Option<String>,
}

async fn topic(Query(q): Query<Asked>) -> Json<Value> {
    Json(json!({"saw": true, "id": q.id, "topic_id": q.topic_id}))
}

async fn login(method: Method, headers: HeaderMap) -> Json<Value> {
    let text = |name| headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
    Json(json!({"saw": true, "method": method.as_str(), "host": text("host"), "account": text("x-account")}))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let port = std::env::args().nth(1).expect("a port");
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("the port is free");
    let routes = Router::new().route("/topic", any(topic)).route("/login", get(login).post(login));
    axum::serve(listener, routes).await.expect("it serves");
}
