"""Processes that serve: one, or several behind one socket."""

from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess


class Workers(Multiprocess):
    """Worker processes and their parent, which holds their socket.

    Asked to end, the parent closes it too: else whoever comes while the workers finish is let in by the system, waits
    for nobody, and is cut off in the end.
    """

    def terminate_all(self) -> None:
        """Ask every worker to end."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def run_server(*, workers: int, **options: Any) -> None:
    """Serve until a signal.

    Parameters
    ----------
    workers : int
    **options
        Of uvicorn.
    """
    if workers == 1:
        uvicorn.run(**options)
        return
    config = uvicorn.Config(workers=workers, **options)
    Workers(config, [config.bind_socket()]).run()
