"""What a shell measures of the steps that bring slices to life."""

from streammine.assembly import StepTimes
from streammine.assembly.step_times import MOST_STEPS
from streammine.engine.replay_meter import STEP_BYTES
from streammine.engine.slice_meter import SliceMeter
from streammine.engine.slice_settings import RestoredTo
from streammine.engine.stimuli import WorkResult
from streammine.model.control import StepReport
from streammine.model.ids import SliceId
from streammine.model.recovery_policy import Step

COUNTS = SliceId("counts", 0)


class Clock:
    def __init__(self):
        self.now = 10.0

    def __call__(self):
        return self.now


def test_of_each_step_of_a_replica_the_newest_is_told():
    clock = Clock()
    times = StepTimes(clock)
    clock.now = 10.5
    assert times.took(Step.DEPLOY, COUNTS, 1, 10.0) == 10.5
    times.took(Step.SAVE, COUNTS, 1, 10.25, 100)
    times.took(Step.SAVE, COUNTS, 1, 10.0, 300)
    assert times.reports == (
        StepReport("deploy", "counts/0", 1, 0.5, 0.0),
        StepReport("save", "counts/0", 1, 0.5, 300.0),
    )


def test_only_so_many_are_kept():
    times = StepTimes(Clock())
    for generation in range(MOST_STEPS + 3):
        times.took(Step.DEPLOY, COUNTS, generation, 10.0)
    assert [each.generation for each in times.reports] == list(range(3, MOST_STEPS + 3))


def test_a_switch_takes_from_the_plan_s_declaration_until_it_is_seen():
    clock = Clock()
    times = StepTimes(clock)
    times.declared(4)
    clock.now = 10.25
    times.seen(3)
    assert times.reports == ()
    times.seen(4)
    times.seen(4)
    assert times.reports == (StepReport("switch", "", 4, 0.25, 0.0),)


def test_a_replica_has_no_rates_before_its_second_look():
    meter = SliceMeter(is_source=False)
    meter.note(1.0, {"bytes_in": 100.0})
    meter.note(1.0, {"bytes_in": 200.0})
    assert (meter.rates.input, meter.rates.processing) == (0.0, None)


def test_ends_of_epochs_are_input_too():
    meter = SliceMeter(is_source=False)
    meter.note(1.0, {"busy_seconds": 0.0})
    meter.note(2.0, {"epochs": 10.0, "busy_seconds": 0.5})
    assert meter.rates.input == 10 * STEP_BYTES
    assert meter.rates.processing == 20 * STEP_BYTES


def test_a_clock_that_was_set_back_begins_anew():
    meter = SliceMeter(is_source=False)
    meter.note(5.0, {"bytes_in": 100.0})
    meter.note(1.0, {"bytes_in": 200.0})
    meter.note(2.0, {"bytes_in": 300.0})
    assert meter.rates.input == 100.0


def test_a_state_that_a_replica_takes_in_while_it_stands_by_was_loaded():
    clock = Clock()
    times = StepTimes(clock)
    clock.now = 10.5
    times.performed(WorkResult(taken_bytes=7), COUNTS, 2, 10.0)
    assert times.reports == ()
    times.performed(WorkResult(taken=RestoredTo(7, 7), taken_bytes=300), COUNTS, 2, 10.0)
    assert times.reports == (StepReport("load", "counts/0", 2, 0.5, 300.0),)
