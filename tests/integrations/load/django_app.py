"""A project of Django in one file: a blocking view and one of coroutines."""

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

from tests.integrations.load.work import PATIENCE, TTL, awork, work

settings.configure(
    ALLOWED_HOSTS=["*"],
    FENCELOCK={"ttl": TTL},
    INSTALLED_APPS=["fencelock.contrib.django"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="for tests",
)
wsgi, asgi = get_wsgi_application(), get_asgi_application()

from fencelock.contrib.django import alock, lock  # noqa: E402 - it reads the settings


def blocking(request, name, number):
    with lock(name, timeout=PATIENCE):
        work(name, number)
    return HttpResponse()


async def in_task(request, name, number):
    async with alock(name, timeout=PATIENCE):
        await awork(name, number)
    return HttpResponse()


async def in_thread(request, name, number):
    async with lock(name, timeout=PATIENCE):
        await sync_to_async(work)(name, number)
    return HttpResponse()


urlpatterns = [
    path("def/<name>/<int:number>", blocking),
    path("async/<name>/<int:number>", in_task),
    path("thread/<name>/<int:number>", in_thread),
]
