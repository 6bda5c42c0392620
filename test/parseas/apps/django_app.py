"""gunicorn django_app:app"""

from django.conf import settings
from django.http import JsonResponse
from django.urls import path
from django.core.wsgi import get_wsgi_application


def topic(request):
    q = request.GET
    return JsonResponse({"saw": True, "id": q.get("id"), "topic_id": q.get("topic_id")})


def article(request, id, slug):
    return JsonResponse({"saw": True, "id": id})


urlpatterns = [path("topic", topic), path("articles/<str:id>/<str:slug>", article)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", DEBUG=False)
app = get_wsgi_application()
