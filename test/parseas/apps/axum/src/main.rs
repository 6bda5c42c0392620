//! topic PORT: one route, whose handler reads the query by axum's extractor.

use axum::{extract::Query, routing::any, Json, Router};
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

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let port = std::env::args().nth(1).expect("a port");
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("the port is free");
    axum::serve(listener, Router::new().route("/topic", any(topic))).await.expect("it serves");
}
