"""gunicorn flask_app:app"""

from flask import Flask, jsonify, request

app = Flask(__name__)


@app.route("/topic", methods=["GET", "POST"])
def topic():
    q = request.args
    return jsonify(saw=True, id=q.get("id"), topic_id=q.get("topic_id"))


@app.route("/login", methods=["GET", "POST"])
def login():
    return jsonify(saw=True, method=request.method, host=request.host, account=request.headers.get("X-Account"))


@app.route("/articles/<id>/<slug>", methods=["GET", "POST"])
def article(id, slug):
    return jsonify(saw=True, id=id)
