"""A refinement in the background: a thread of this process that can be asked, waited for and cancelled."""

from concurrent.futures import Future
from threading import Thread

from analyst_client.refinement.buying import Refining
from analyst_client.refinement.progress import Progress
from analyst_client.refinement.refinement import Refinement


class RefinementJob:
    """A refinement that a thread buys, made by `CuratorClient.submit_refinement`.

    It ends with the process, as if that had been killed: what is held waits for the same call. Closing its client ends
    it too.

    Parameters
    ----------
    refining : Refining
        Refinement to buy.

    Attributes
    ----------
    done : bool
        Whether it has ended, in whichever way.
    progress : Progress
        The step that is being taken, what was spent, and how long it takes still.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client, features = recorded_client("one_call"), ["age", "sex", "creatinine"]
    >>> job = client.submit_refinement("flchain", features, target="kappa", epsilon=1.0, delta=1e-6)
    >>> refinement = job.result()  # waits for it
    >>> job.done
    True
    """

    def __init__(self, refining: Refining) -> None:
        self.progress = Progress(refining.problem.target.name, show=False)
        self._refining, self._future = refining, Future[Refinement]()
        self._thread = Thread(target=self._run, name="refinement", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._future.set_result(self._refining.run(self.progress))
        except BaseException as error:
            self._future.set_exception(error)

    @property
    def done(self) -> bool:
        """True if the refinement has ended, with a result or an error."""
        return self._future.done()

    def result(self, timeout_s: float | None = None) -> Refinement:
        """Wait for the refinement, and return it.

        Parameters
        ----------
        timeout_s : float, optional
            Longest wait, in seconds. Default until it ends.

        Returns
        -------
        Refinement
            As of `CuratorClient.refine`.

        Raises
        ------
        TimeoutError
            When it goes on after that time; it may be waited for again. An interruption ends the wait alone, too.
        CancelledError
            Of `concurrent.futures`, when it was cancelled.
        CuratorError
            As of `CuratorClient.refine`.
        """
        return self._future.result(timeout_s)

    def cancel(self) -> bool:
        """End it after the step that is being taken, give back the rest of the price, and wait for that.

        Returns
        -------
        bool
            False where it had ended before: nothing is held any more, or an error of `result` says what is.
        """
        if self.done:
            return False
        self.progress.cancel()
        self._thread.join()
        return self._future.exception() is not None

    def __repr__(self) -> str:
        """Show the state and the progress."""
        return f"<RefinementJob {'done' if self.done else self.progress}>"
