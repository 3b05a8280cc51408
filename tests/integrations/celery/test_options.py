"""Wrong options are refused before anything is sent, each with what would be right."""

import pytest

pytest.importorskip("celery")

from celery import Celery, shared_task
from celery.exceptions import ImproperlyConfigured

import fencelock
from fencelock.contrib.celery import TaskBusy, TaskLeaseLost, TaskSkipped, current_lease, exclusive
from fencelock.contrib.celery.clients import client_options
from fencelock.contrib.celery.exclusive import label_of, task_id_of


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"busy": "wait"}, ValueError, '"retry", "skip" or "raise"'),
        ({"lost": "skip"}, ValueError, '"fail" or "retry"'),
        ({"timeout": -1}, ValueError, "0 or more"),
        ({"countdown": 0}, ValueError, "countdown must be above 0"),
        ({"busy": "skip", "retries": 3}, ValueError, "needs busy='retry'"),
        ({"retries": -1}, ValueError, "retries must be at least 0"),
        ({"ttl": 0}, ValueError, "ttl must be between"),
        ({"client": "redis://host"}, TypeError, "fencelock.Client or None"),
    ],
)
def test_an_option_that_cannot_work_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        exclusive("a", **given)


def test_a_bare_decorator_and_unknown_arguments_are_refused():
    with pytest.raises(TypeError, match="write @exclusive"):
        exclusive(print)
    with pytest.raises(ValueError, match="it has: account"):
        exclusive("import:{account_id}")(lambda account: None)


def test_a_shared_task_is_decorated_below():
    @shared_task(name="shared")
    def shared():
        pass

    with pytest.raises(TypeError, match="below @shared_task"):
        exclusive("a")(shared)


@pytest.mark.parametrize(
    ("conf", "source"),
    [
        ({"broker_url": "redis://broker"}, "redis://broker"),
        ({"broker_url": "redis://broker", "fencelock": "redis://locks"}, "redis://locks"),
        ({"broker_url": "amqp://broker", "fencelock": {"source": "redis://l"}}, "redis://l"),
        ({"broker_url": "amqp://r", "broker_write_url": "redis://w"}, "redis://w"),
    ],
)
def test_the_server_of_the_locks(conf, source):
    app = Celery("a", set_as_current=False)
    app.conf.update(conf)
    assert client_options(app.conf)["source"] == source


def test_the_environment_comes_before_the_broker(monkeypatch):
    monkeypatch.setenv("FENCELOCK_URL", "redis://environment")
    assert client_options({"broker_url": "redis://broker"})["source"] == "redis://environment"


@pytest.mark.parametrize("conf", [{"broker_url": "amqp://broker"}, {"fencelock": 3}])
def test_without_a_server_it_says_what_to_set(conf):
    with pytest.raises(ImproperlyConfigured, match="fencelock"):
        client_options(conf)


def test_a_direct_call_holds_the_lock_too(server):
    app = Celery("direct", set_as_current=False, broker=server.tcp_url)

    @app.task
    @exclusive("one:{key}", busy="retry")
    def one(key):
        return current_lease().name

    @app.task
    @exclusive("one:{key}", busy="skip")
    def two(key):
        pass

    assert one("a") == "one:a"
    with pytest.raises(LookupError):
        current_lease()
    with fencelock.Client(server.tcp_url) as client, client.lock("one:a", label="a person"):
        with pytest.raises(TaskBusy, match="a person"):
            one("a")
        with pytest.raises(TaskSkipped, match="a person"):
            two("a")


def test_a_label_has_the_id_and_the_end_of_the_name():
    class Request:
        id = "0" * 36

    class Task:
        name = "some.very.long.package.of.tasks.import_account"

    label = label_of(Task, Request)
    assert len(label) == 64
    assert task_id_of(label) == Request.id
    assert label.endswith("import_account")
    assert task_id_of("a person") == ""


@pytest.mark.parametrize("kind", [TaskBusy, TaskSkipped, TaskLeaseLost])
def test_an_outcome_is_made_anew_from_its_arguments(kind):
    error = kind("why", {"name": "a"})
    assert str(kind(*error.args)) == str(error) == "why"
    assert str(kind("why")) == "why"
