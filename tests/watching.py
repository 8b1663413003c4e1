"""A watcher for tests: it writes down what it is told, in order."""

from hpfl import Watcher


class Diary(Watcher):
    """One line per call; `rounds` and `figures` are what came with them."""

    def __init__(self, on_round=lambda record: None):
        self.lines, self.records, self.figures, self.on_round = [], [], [], on_round

    def started(self, run):
        self.run = run
        self.lines.append(f"started after {run.state.round} of {run.rounds}")

    def round(self, state, record):
        assert state.round == record.round
        self.records.append(record.to_json())
        self.lines.append(f"round {record.round}")
        self.on_round(record)

    def evaluated(self, round_number, columns, ues):
        self.figures.append((round_number, columns, ues))
        self.lines.append(f"evaluated {round_number}")

    def saved(self, round_number):
        self.lines.append(f"saved {round_number}")

    def ended(self, result):
        self.result = result
        self.lines.append(f"ended {result.how}")


class Clumsy(Watcher):
    """Fails in one method, and counts what it is told."""

    def __init__(self, method):
        self.told, self.method = [], method

    def __getattribute__(self, name):
        if name not in {"started", "round", "evaluated", "saved", "ended"}:
            return super().__getattribute__(name)

        def heard(*facts):
            self.told.append(name)
            if name == self.method:
                raise ZeroDivisionError("by nothing")

        return heard
