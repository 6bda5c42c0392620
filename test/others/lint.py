"""Judges responses by httplint. Reads one JSON document a line: {"name", "method", "target", "status", "fields": [[name,
value], ...], "body", "at"}, the body in base64 and the time in seconds, and writes {"name", "notes"}, with the notes that are a warning or worse."""
import base64
import json
import sys

from httplint import HttpRequestLinter, HttpResponseLinter, levels


def judged(notes):
    for note in notes:
        if note.level in (levels.WARN, levels.BAD):
            yield f"[{note.level.name}] {note.subject}: {note.summary}"
        yield from judged(note.subnotes)


for line in sys.stdin:
    message = json.loads(line)
    request = HttpRequestLinter()
    request.process_request_topline(message["method"].encode(), message["target"].encode(), b"1.1")
    request.process_headers([])
    request.finish_content(True, [])
    response = HttpResponseLinter(start_time=message["at"])
    response.request, response.is_head_response = request, message["method"] == "HEAD"
    response.process_response_topline(b"1.1", str(message["status"]).encode(), b"")
    response.process_headers([(n.encode(), v.encode("latin-1")) for n, v in message["fields"]])
    response.feed_content(base64.b64decode(message["body"]))
    response.finish_content(True, [])
    print(json.dumps({"name": message["name"], "notes": list(judged(response.notes))}), flush=True)
