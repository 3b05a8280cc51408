"""A project for these tests; the environment says where its servers are."""

import os

SECRET_KEY = "for tests"
DEBUG = False
USE_TZ = True
ROOT_URLCONF = "tests.integrations.django.urls"
FENCELOCK = {"ttl": float(os.environ.get("SHOP_TTL", "30"))}  # the server: FENCELOCK_URL
INSTALLED_APPS = [
    "fencelock.contrib.django",  # before Django's own: its migrate comes first
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "tests.integrations.django.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ALLOWED_HOSTS = ["testserver"]
if os.environ.get("SHOP_POSTGRESQL"):
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": os.environ["SHOP_POSTGRESQL"],
            "PORT": os.environ.get("SHOP_PORT", ""),
            "DISABLE_SERVER_SIDE_CURSORS": True,  # as PgBouncer wants it
            "USER": "postgres",
            "NAME": os.environ["SHOP_DATABASE"],
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ["SHOP_DATABASE"],
            "OPTIONS": {"timeout": 20},
        }
    }
