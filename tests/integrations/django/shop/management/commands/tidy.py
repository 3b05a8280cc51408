from django.core.management.base import BaseCommand

from fencelock.contrib.django import django_command_lock
from tests.integrations.django.shop.work import wait


@django_command_lock(busy="skip")
class Command(BaseCommand):
    def handle(self, *args, **options):
        wait("tidy")
