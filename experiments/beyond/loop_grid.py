"""A Flower grid without a network: messages go straight to the client app, one node after another."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

Reply = Callable[[Message, Message], list[Message]]


class LoopGrid:
    """Nodes 100, 101, ..., each with a context of its own.

    Args:
        app: of every node.
        count: how many.
        replies: for some nodes, what arrives at the server instead of what they answered.

    Attributes:
        sent, received: every message that went each way.
        dead: nodes that do not answer any more.
        before: called with each batch of messages before it is sent.
    """

    def __init__(self, app: ClientApp, count: int, replies: dict[int, Reply] | None = None) -> None:
        self.app, self.replies = app, replies or {}
        self.contexts = {100 + i: Context(7, 100 + i, {"partition-id": i}, RecordDict(), {}) for i in range(count)}
        self.sent: list[Message] = []
        self.received: list[Message] = []
        self.dead: set[int] = set()
        self.before: Callable[[list[Message]], None] = lambda messages: None

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def ask(self, message: Message) -> Message:
        message.metadata.__dict__["_message_id"] = str(uuid4())
        node = message.metadata.dst_node_id
        try:
            return self.app(copy.deepcopy(message), self.contexts[node])
        except Exception as error:  # as Flower's own backends do
            return Message(Error(code=1, reason=repr(error)), reply_to=message)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        batch = list(messages)
        self.before(batch)
        self.sent += batch
        arrived = []
        for message in batch:
            node = message.metadata.dst_node_id
            if node not in self.dead:
                reply = self.ask(message)
                arrived += self.replies.get(node, lambda asked, reply: [reply])(message, reply)
        self.received += arrived
        return arrived


@contextmanager
def identity() -> Iterator[None]:
    """Messages can be made as in a server app of run 7."""
    before = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 1
    try:
        yield
    finally:
        TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = before
