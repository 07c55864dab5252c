"""Runs the server in this process until it is told to stop."""

import asyncio
import contextlib
import signal
import socket

import uvicorn

from keras_transformer.serving.app import make_app


def bind(host, port):
    """A socket at an address, not yet listening.

    Args:
        host: A name or a number of this machine.
        port: A free port; 0 takes any.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        raise ValueError(
            "`host` and `port` must be a free address of this machine. "
            f"Received: host={host}, port={port}: {error}. Give another "
            "--port, or 0 for any."
        ) from None
    return listener


def serve(servable, listener, limits=None, ready=None):
    """Answers requests until SIGTERM or SIGINT, and then those it has.

    Args:
        servable: A `Servable`.
        listener: A socket that `bind` made.
        limits: `Limits`.
        ready: A function that is called when the server answers.

    Returns:
        Whether all got their answer: not if it was told twice.
    """
    app = make_app(servable, limits)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=75,
    )
    server = _Server(config, app.state, ready)
    server.run([listener])
    return not server.force_exit


class _Server(uvicorn.Server):
    """Leaves no request without its answer when it stops."""

    # Seconds for requests that were on their way when the signal came.
    LINGER = 1.0

    def __init__(self, config, state, ready):
        super().__init__(config)
        self._state, self._ready = state, ready

    async def startup(self, sockets=None):
        await super().startup(sockets)
        if self._ready is not None:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self):
        loop = asyncio.get_running_loop()
        before = {
            number: signal.signal(
                number, lambda *_: loop.call_soon_threadsafe(self._stop)
            )
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self):
        if self._state.stopping:  # asked twice
            self.force_exit = self.should_exit = True
            return
        self._state.stopping = True
        loop = asyncio.get_running_loop()
        # After the connections that the kernel has already made.
        loop.call_soon(self._close_listeners)
        loop.call_later(self.LINGER, setattr, self, "should_exit", True)

    def _close_listeners(self):
        for server in self.servers:
            server.close()
