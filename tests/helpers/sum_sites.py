"""Sites around Flower's SecAgg+, and what carries their messages: a list.

The messages are Flower's own. A client can be made to die before any phase of the
protocol, and a test reads what a server saw.
"""

import copy
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from deployed import SUMS, model, policy, trained
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.server import LegacyContext
from flwr.server.client_manager import SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, Key
from flwr.server.workflow.default_workflows import default_init_params_workflow
from flwr.supercore.task_identity import TaskIdentity

from fedsvp_jax.deploy import Client, Policy, Seeded, Site, Trained
from fedsvp_jax.deploy.flower_sums import SumMod, SumStrategy, SumWorkflow

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # as flwr sets
CLIENTS = 5
PHASES = ("setup", "share_keys", "collect_masked_vectors", "unmask")


def moved(client: int, received: list[np.ndarray]) -> list[np.ndarray]:
    return trained(received, 0.1 * (client + 1))


class Sites:
    """Five sites and what carries messages to them; one is dead from a phase on.

    They train as `moved` says, or are ready clients.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        dies: str = "",
        how_many: int = 1,
        clients: Sequence[Client] = (),
        away: int = 0,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        self.policy = policy(**SUMS | dict(changes or {}))
        self.dies, self.how_many = dies, how_many
        self.initial = model()
        self.dead: set[int] = set()
        self.sent: list[Message] = []
        self.mods, self.contexts = {}, {}
        if clients:
            self.policy = clients[0].policy
            self.initial = clients[0].initial_arrays
        for client in range(CLIENTS):
            if clients:
                clients[client].begin()
                mod = SumMod(clients[client].site, clients[client].train)
            else:
                seeded = Seeded(7, client)
                site = Site(folder / str(client), self.policy, randomness=seeded)
                site.begin(30)
                mod = SumMod(
                    site,
                    lambda received, _, c=client: Trained(moved(c, received)),
                )
            if client < away:
                continue
            self.mods[client + 1] = mod
            self.contexts[client + 1] = Context(0, client + 1, {}, RecordDict(), {})

    def send_and_receive(self, messages: Any, timeout: Any = None) -> list[Message]:
        del timeout
        replies = []
        for message in map(copy.deepcopy, messages):  # as a wire does
            node = message.metadata.dst_node_id
            stage = message.content.config_records["secaggplus_configs"]["stage"]
            if stage == self.dies and len(self.dead) < self.how_many:
                self.dead.add(node)
            message.metadata.__dict__["_message_id"] = str(len(self.sent))
            if node in self.dead:
                reply = Message(Error(code=3, reason="dead"), reply_to=message)
            else:
                reply = self.mods[node](message, self.contexts[node], None)
            self.sent.append(reply)
            replies.append(reply)
        return replies

    def run(
        self,
        rounds: int = 1,
        told: Policy | None = None,
        kept: pathlib.Path | None = None,
        models: list[Any] | None = None,
        begins: int = 1,
    ) -> SumStrategy:
        """A server of the clients' policy, or of `told`, which keeps its sums.

        The sum and the model after each round are added to `models`. Without `kept` the
        first round is `begins`.
        """
        clients = SimpleClientManager()
        for node in self.mods:
            clients.register(GridClientProxy(node, self, 0))  # type: ignore[arg-type]
        strategy = SumStrategy(told or self.policy, self.initial, kept)
        strategy.last_round += begins - 1
        context = LegacyContext(
            Context(0, 0, {}, RecordDict(), {}),
            strategy=strategy,
            client_manager=clients,
        )
        default_init_params_workflow(self, context)  # type: ignore[arg-type]
        for number in range(1, rounds + 1):
            record = ConfigRecord({Key.CURRENT_ROUND: number})
            context.state.config_records[MAIN_CONFIGS_RECORD] = record
            SumWorkflow(self.policy)(self, context)  # type: ignore[arg-type]
            if models is not None:
                models.append((strategy.last_sum, strategy.arrays))
        return strategy
