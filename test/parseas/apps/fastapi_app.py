"""uvicorn fastapi_app:app"""

from fastapi import FastAPI, Request

app = FastAPI()


@app.api_route("/topic", methods=["GET", "POST"])
def topic(id: str | None = None, topic_id: str | None = None):
    return {"saw": True, "id": id, "topic_id": topic_id}


@app.api_route("/login", methods=["GET", "POST"])
def login(request: Request):
    try:
        host = request.url.hostname
    except ValueError:
        host = None
    return {"saw": True, "method": request.method, "host": host, "account": request.headers.get("X-Account")}


@app.api_route("/articles/{id}/{slug}", methods=["GET", "POST"])
def article(id: str, slug: str):
    return {"saw": True, "id": id}
