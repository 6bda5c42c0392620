"""gunicorn django_app:app"""

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import JsonResponse
from django.urls import path
from django.core.wsgi import get_wsgi_application
from django.views.decorators.http import require_http_methods


def topic(request):
    q = request.GET
    return JsonResponse({"saw": True, "id": q.get("id"), "topic_id": q.get("topic_id")})


def article(request, id, slug):
    return JsonResponse({"saw": True, "id": id})


@require_http_methods(["GET", "POST"])
def login(request):
    try:
        host = request.get_host()
    except DisallowedHost:
        host = None
    account = request.headers.get("X-Account")
    return JsonResponse({"saw": True, "method": request.method, "host": host, "account": account})


urlpatterns = [path("topic", topic), path("login", login), path("articles/<str:id>/<str:slug>", article)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", DEBUG=False)
app = get_wsgi_application()
