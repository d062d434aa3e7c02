"""Transcripts of agreement: a few real machines, one script that says who hears whom.

=========================  =========================================================================
> plan 1 of 1 2            all of them are told; ``plan 2 of 2 3, after 1 of 1 2`` with a former one
> 3 begins at 5            it is built from the state after epoch 5, and known to plans from now on
> 1 read                   the store is sealed and read for replica 1
> 1 has 5a                 bag ``a`` of epoch 5 came, and the epoch ended
> 1 holds 5a               the bag came, from wherever
> 1 hears 2                the newest message that 2 has sent to 1 arrives; ``the first`` that ever was
> 1 waits                  for longer than its patience; ``long``: than others may be silent;
                           ``little``: less than that
> 1 wrote                  its oldest decision is in the store; ``under seal 2``: and the store is sealed
> witness 1: 2             replica 1 is told that 2 holds the witness
> 1 covered 5              a complete checkpoint covers epoch 5
> 1 pauses, 1 resumes at 5
> 1 knows 2 gone
=========================  =========================================================================

Below each line stands what the replica did; a report is told by what it says.
"""

from __future__ import annotations

from replication.consensus import Consensus
from replication.quorums import INHERITED, NAMED
from streammine.model import agreement as words
from streammine.model.agreement import Bag, BagSet, Ballot, FormerPlan, ReplicaPlan
from tests.unit.transcripts import played, tidy

WAITS_SECONDS = {"": 0.03, "long": 0.2, "little": 0.015}


class Replicas:
    """Machines by generation, and what they have sent to each other and to the store."""

    def __init__(self, stored: bool = False, bags_come: bool = False) -> None:
        self.settings = words.AgreementSettings(every_decision_stored=stored, bags_come=bags_come)
        self.machines: dict[int, Consensus] = {}
        self.sent: dict[tuple[int, int], list[words.AgreementMessage]] = {}
        self.writes: dict[int, list[words.StoredDecision]] = {}
        self.records: list[words.StoredDecision] = []
        self.now_seconds = 0.0
        self.versions: dict[int, int] = {}

    def __call__(self, line: str) -> list[str]:
        match line.replace(",", "").replace(":", "").split():
            case ["plan", version, "of", *rest]:
                return self.plan(int(version), rest)
            case [one, "begins", "at", epoch]:
                self.machines[int(one)] = Consensus(int(one), self.settings, int(epoch), int(epoch))
                return []
            case ["witness", one, holder]:
                return self.give(
                    int(one), words.WitnessAnswered(self.versions[int(one)], int(holder))
                )
            case [one, "read"]:
                version = self.versions[int(one)]
                return self.give(int(one), words.StoreRead(version, tuple(self.records)))
            case [one, "has", what]:
                told = self.give(int(one), words.BagHeld(0, *bag(what)))
                return told + self.give(int(one), words.EpochEnded(bag(what)[0]))
            case [one, "holds", what]:
                return self.give(int(one), words.BagHeld(0, *bag(what)))
            case [one, "hears", other, *which]:
                messages = self.sent[int(other), int(one)]
                return self.give(int(one), words.Heard(messages[0 if which else -1]))
            case [one, "waits", *long]:
                self.now_seconds += WAITS_SECONDS[long[0] if long else ""]
                return self.give(int(one), words.Tick(self.now_seconds))
            case [one, "wrote", *seal]:
                stored = self.writes[int(one)].pop(0)
                self.records += stored
                return self.give(
                    int(one), words.DecisionDurable(stored, int(seal[-1]) if seal else 0)
                )
            case [one, "covered", epoch]:
                return self.give(int(one), words.Covered(int(epoch)))
            case [one, "is", "behind"]:
                return self.give(int(one), words.Behind(True))
            case [one, "pauses"]:
                return self.give(int(one), words.Paused())
            case [one, "resumes", "at", epoch]:
                return self.give(int(one), words.Resumed(int(epoch)))
            case [one, "knows", *gone, "gone"]:
                return self.give(int(one), words.ReplicasGone(frozenset(map(int, gone))))
        raise AssertionError(f"no such line: {line}")

    def plan(self, version: int, rest: list[str]) -> list[str]:
        parts = " ".join(rest).split(" after ")
        members = tuple(map(int, parts[0].split()))
        former = []
        for part in parts[1:]:
            number, _, *who = part.split()
            former.append(FormerPlan(int(number), tuple(map(int, who))))
        told = []
        for one in members:
            if one not in self.machines:
                self.machines[one] = Consensus(one, self.settings, 0, 0)
            self.versions[one] = version
            told += self.give(one, words.PlanChanged(ReplicaPlan(version, members, tuple(former))))
        return told

    def give(self, one: int, stimulus: words.AgreementStimulus) -> list[str]:
        effects = self.machines[one].handle(stimulus)
        for effect in effects:
            if isinstance(effect, words.Tell):
                for receiver in effect.receivers:
                    self.sent.setdefault((one, receiver), []).append(effect.message)
            elif isinstance(effect, words.MakeDurable):
                self.writes.setdefault(one, []).append(effect.stored)
        shown = (each for each in effects if not isinstance(each, words.Decided))
        return [f"{one} {effect_text(effect)}" for effect in shown]


def bag(text: str) -> tuple[int, Bag]:
    """``5a``: bag ``a`` of epoch 5."""
    return int(text[:-1]), Bag(text[-1], 1)


def set_text(value: BagSet) -> str:
    return f"{value.epoch}{''.join(each.digest for _, each in value.bags)}"


def effect_text(effect: words.AgreementEffect) -> str:
    """Of all but `Decided`, which mostly stands beside `Process`."""
    match effect:
        case words.Tell(receivers, message):
            return f"tells {' '.join(map(str, receivers))}: {message_text(message)}"
        case words.FetchBag(_, epoch, wanted, holders):
            return (
                f"fetches {epoch}{wanted.digest} from {' '.join(map(str, holders)) or 'elsewhere'}"
            )
        case words.AskWitness():
            return "asks for the witness"
        case words.SealStore(version, _):
            return f"seals the store for plan {version}"
        case words.MakeDurable(stored):
            return "writes " + " ".join(set_text(each.decision.chosen) for each in stored)
        case words.Process(decision):
            return f"processes {set_text(decision.chosen)}"
        case words.Outrun(covered):
            return f"is outrun up to {covered}"
        case words.Decided():
            raise AssertionError("not shown")


def message_text(message: words.AgreementMessage) -> str:
    if isinstance(message, words.Decisions):
        return "decided " + " ".join(set_text(each.chosen) for each in message.decisions)
    if isinstance(message, words.Pulse):
        return f"as before, knows up to {message.decided}"
    parts = [entry_text(entry) for entry in message.entries]
    if message.ready_in < message.plan_version:
        parts.insert(0, f"not ready for plan {message.plan_version}")
    if not message.votes:
        parts.insert(0, "paused")
    if not parts:
        parts = [f"knows up to {message.decided}"]
    if not message.writes:
        parts.append("late with the store")
    return ", ".join(parts) + ("?" if message.asks else "")


def entry_text(entry: words.Entry) -> str:
    if entry.value is None or entry.ballot is None:
        return f"promised {entry.promised.attempt} after {entry.after}"
    value = set_text(entry.value)
    text = {INHERITED: f"brought {value}", NAMED: f"named {value}"}.get(
        entry.ballot.attempt, f"accepted {value} in {entry.ballot.attempt}"
    )
    if entry.promised > max(entry.ballot, Ballot(entry.promised.plan_version, NAMED)):
        text += f" but promised {entry.promised.attempt}"
    return text


def ready(count: int, stored: bool = False, bags_come: bool = False) -> Replicas:
    """Replicas 1 to `count` of plan 1, which have learnt that there is nothing to know."""
    replicas = Replicas(stored, bags_come)
    members = range(1, count + 1)
    replicas.plan(1, [str(one) for one in members])
    for one in members:
        replicas(f"{one} read")
    hear_each_other(replicas, *members)
    return replicas


def hear_each_other(replicas: Replicas, *members: int) -> None:
    for one in members:
        for other in members:
            if one != other:
                replicas(f"{one} hears {other}")


def together_for(replicas: Replicas, seconds: float) -> list[str]:
    """Replicas 1 and 2 hear each other for so long; what both did meanwhile."""
    done: list[str] = []
    until = replicas.now_seconds + seconds
    while replicas.now_seconds < until:
        for line in ("2 waits little", "1 hears 2", "1 waits little", "2 hears 1"):
            done += replicas(line)
    return done


def check(replicas: Replicas, script: str) -> None:
    """Play the script; it has to come out as it is written."""
    assert played(script, replicas) == tidy(script)
