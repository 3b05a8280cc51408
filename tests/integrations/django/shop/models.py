from django.db import models

from fencelock.contrib.django.fences import FencedModel


class Account(FencedModel):
    owner = models.CharField(max_length=50)
    balance = models.IntegerField(default=0)
