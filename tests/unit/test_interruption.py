"""Signals: put off while something must not be cut short, and noted for the exit code."""

import signal

import pytest

from streammine.cli import interruption
from streammine.cli.interruption import (
    Terminated,
    first_interruption,
    interruptible,
    note_interruptions,
    require_uninterrupted,
)
from streammine.runtime.processes import signals_deferred


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    monkeypatch.setattr(interruption, "_came", [])
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers():
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@signals_deferred()
def interrupted_work(number, work):
    signal.raise_signal(number)
    work()


def test_a_deferred_signal_raises_when_all_is_done():
    before = handlers()
    done = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_work(signal.SIGINT, lambda: done.append("all"))
    assert done == ["all"]
    assert handlers() == before


def test_a_deferred_signal_is_not_lost_in_an_error():
    def fail():
        raise ValueError("that, too")

    with interruptible(), pytest.raises(Terminated):
        interrupted_work(signal.SIGTERM, fail)


def test_ctrl_c_while_handlers_are_put_back_leaves_none_that_swallows(monkeypatch):
    set_handler = signal.signal

    def interrupted(number, handler):
        before = set_handler(number, handler)
        if handler is signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)
        return before

    with interruptible():
        with (
            pytest.raises(KeyboardInterrupt),
            monkeypatch.context() as patch,
            signals_deferred(),
        ):
            patch.setattr(signal, "signal", interrupted)
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)


def test_the_first_of_several_interruptions_is_remembered():
    note_interruptions()
    assert first_interruption() is None
    with interruptible():
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert first_interruption() == signal.SIGTERM


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_raised_where_python_drops_it_is_raised_again(number, raised):
    class Finalized:
        def __del__(self):
            signal.raise_signal(number)

    note_interruptions()
    require_uninterrupted()
    with interruptible():
        Finalized()
        with pytest.raises(raised):
            require_uninterrupted()


def test_ctrl_c_that_is_ignored_stays_so():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    note_interruptions()
    signal.raise_signal(signal.SIGINT)
    assert first_interruption() is None
