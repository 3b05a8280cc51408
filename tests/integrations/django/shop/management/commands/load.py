from django.core.management.base import BaseCommand

from fencelock.contrib.django import django_command_lock
from tests.integrations.django.shop.work import wait


@django_command_lock("load:{account}")
class Command(BaseCommand):
    def add_arguments(self, parser):
        parser.add_argument("--account", type=int, default=1)

    def handle(self, *args, account, **options):
        wait(account)
