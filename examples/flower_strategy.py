"""Flower with a planned radio: FedAvg in which a plan says who trains, with how many Hz and until when.

    python examples/flower_strategy.py        # everything in this process, no SuperLink; needs flwr and hpfl

`Planned` is what to take along: give it a function that knows your radio, and start it as any other strategy of
`flwr.serverapp`. Clients are told `bandwidth-hz` and `deadline-s`, and report the squared norm of their update, by
which the next rounds know whose updates matter. The rest of the file is a small problem to see it work on.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

import hpfl

NORM = "update-norm-squared"
NOISE_W_PER_HZ, POWER_W = 4e-21, 0.01


@dataclass(frozen=True)
class Radio:
    """What is known of the clients before a round, one entry each."""

    gain: np.ndarray  # power gain towards the server, linear
    bits: np.ndarray  # of an update
    compute_s: np.ndarray  # until it can be sent


def posed(radio: Radio, importance: np.ndarray, names: tuple[str, ...], *, band_hz: float, most: int) -> Any:
    """One round of clients that report straight to the server: edges with one UE each, and no backhaul."""
    ones = np.ones(len(names))
    return hpfl.RoundProblem(
        bandwidth_hz=band_hz,
        rho=0.5,
        phi=1.0,
        max_edges=most,
        staleness_bound=10**6,
        edge_ids=names,
        edge_gain=ones,
        edge_power_w=ones,
        edge_noise_w_per_hz=ones,
        edge_bits=0.0 * ones,  # nothing goes on from there
        importance=importance,
        staleness=0.0 * ones,
        edge_of_ue=np.arange(len(names)),
        ue_gain=radio.gain,
        ue_power_w=POWER_W * ones,
        ue_noise_w_per_hz=NOISE_W_PER_HZ * ones,
        ue_bits=radio.bits,
        compute_s=radio.compute_s,
    )


class Planned(FedAvg):
    """FedAvg with the clients of a plan in place of a random sample."""

    def __init__(
        self,
        radio: Callable[[int, list[int]], Radio],
        *,
        planner: str = "joint",
        band_hz: float = 1e6,
        most_clients: int = 4,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.radio, self.planner, self.band_hz, self.most = radio, planner, band_hz, most_clients
        self.memory: Any = {}
        self.norms: dict[int, float] = {}  # squared norm of each client's last update
        self.plans: list[hpfl.Plan] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """A message for every client of the plan, with its Hz and its seconds."""
        nodes = sorted(grid.get_node_ids())
        usual = float(np.mean(list(self.norms.values()))) if self.norms else 1.0  # of who was never heard
        importance = np.array([self.norms.get(node, 2.0 * usual) for node in nodes])
        names = tuple(map(str, nodes))
        problem = posed(self.radio(server_round, nodes), importance, names, band_hz=self.band_hz, most=self.most)
        plan, self.memory = hpfl.plan(problem, self.planner, memory=self.memory, round=server_round, certify=False)
        self.plans.append(plan)
        messages = []
        for place in np.flatnonzero(plan.scheduled):
            order = {"bandwidth-hz": float(plan.ue_bandwidth_hz[place]), "deadline-s": float(plan.latency_s[place])}
            told = ConfigRecord({**dict(config), "server-round": server_round, **order})
            content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: told})
            messages.append(Message(content=content, message_type=MessageType.TRAIN, dst_node_id=nodes[place]))
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """FedAvg's mean; and how long each update was."""
        replies = list(replies)
        for reply in replies:
            if not reply.has_error():
                metrics = next(iter(reply.content.metric_records.values()))
                self.norms[reply.metadata.src_node_id] = float(metrics[NORM])
        return super().aggregate_train(server_round, replies)


# A problem to see it work on: every client has samples of a line of its own, and the server looks for the mean line.

SIZE, CLIENTS = 20, 10
client_app = ClientApp()


def samples_of(node: int) -> tuple[np.ndarray, np.ndarray]:
    """A client's own samples."""
    draws = np.random.default_rng(node)
    inputs = draws.normal(size=(50, SIZE))
    return inputs, inputs @ (np.ones(SIZE) + 0.1 * draws.normal(size=SIZE))


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Five steps of gradient descent on the client's own samples."""
    (start,) = message.content["arrays"].to_numpy_ndarrays()
    inputs, targets = samples_of(context.node_id)
    weights = start.copy()
    for _ in range(5):
        weights -= 0.2 * inputs.T @ (inputs @ weights - targets) / len(targets)
    metrics = MetricRecord({"num-examples": len(targets), NORM: float(((weights - start) ** 2).sum())})
    return Message(RecordDict({"arrays": ArrayRecord([weights]), "metrics": metrics}), reply_to=message)


class InThisProcess(Grid):
    """The clients, without a network: each message is answered by the client app at once."""

    run = None

    def __init__(self) -> None:
        self.answers: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """There is one run."""

    def create_message(self, *arguments: Any, **named: Any) -> Message:
        """Messages are made by strategies."""
        return Message(*arguments, **named)

    def get_node_ids(self) -> list[int]:
        """Who is there."""
        return list(range(1, CLIENTS + 1))

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Names under which the answers can be had, which are there at once."""
        named = {f"{message.metadata.dst_node_id}/{uuid4()}": self._answer(message) for message in messages}
        self.answers |= named
        return list(named)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The answers that are there, each once."""
        return [self.answers.pop(name) for name in message_ids if name in self.answers]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Every client's answer; nobody has to be waited for."""
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        context = Context(run_id=0, node_id=node, node_config={}, state=RecordDict(), run_config={})
        return client_app(message, context)


def fading(server_round: int, nodes: list[int]) -> Radio:
    """New gains in every round; an update is 32 bits a number."""
    draws = np.random.default_rng(server_round)
    count = len(nodes)
    return Radio(
        gain=1e-10 * draws.exponential(size=count),
        bits=np.full(count, 32.0 * SIZE),
        compute_s=draws.uniform(0.0, 1e-3, count),
    )


def pretend_to_be_a_server() -> None:
    """Messages name the task that sends them; Flower's own launchers say this to theirs."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1


def main(rounds: int = 8) -> tuple[Planned, float]:
    """Train, and say who was called; the strategy and the distance that is left to the mean line, 1 at the start."""
    pretend_to_be_a_server()
    strategy = Planned(fading, planner="joint", fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    result = strategy.start(InThisProcess(), ArrayRecord([np.zeros(SIZE)]), num_rounds=rounds)
    (weights,) = result.arrays.to_numpy_ndarrays()
    left = float(np.linalg.norm(weights - np.ones(SIZE)) / np.sqrt(SIZE))
    for number, plan in enumerate(strategy.plans, start=1):
        called = (np.flatnonzero(plan.scheduled) + 1).tolist()
        print(f"round {number}: clients {called}, {1e3 * plan.round_latency_s:.2f} ms")
    print(f"distance left: {left:.3f}")
    return strategy, left


if __name__ == "__main__":
    main()
