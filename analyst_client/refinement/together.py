"""Refinements at several hospitals: held at all of them before a step is paid at any, and found by the same call."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial

from analyst_client.errors import CuratorError, UselessRequestError
from analyst_client.refinement.buying import Refining, check_space
from analyst_client.refinement.holding import Holding, recurs
from analyst_client.refinement.practice import Step
from analyst_client.refinement.progress import Progress
from analyst_client.refinement.refinement import Refinement

Named = Callable[[str], AbstractContextManager[None]]
"""A block whose errors name a curator."""


def refine_all(refinings: Mapping[str, Refining], named: Named, *, even_so: bool, show: bool) -> dict[str, Refinement]:
    """Hold the price at every hospital where a step is still to be paid, then follow the plan at each.

    Parameters
    ----------
    refinings : mapping of str to Refining
        By the curator's name.
    named : callable
        Names the curator in errors.
    even_so, show : bool
        As `CuratorClient.refine` has them.

    Raises
    ------
    UselessRequestError
        When no slope would be told at one of them; nothing was charged.
    CuratorError
        Where the same call would fail again, what is held at others was given back; else it waits for the same call.
    """
    useless = [f"at {name}: {reason}" for name, one in refinings.items() for reason in one.useless]
    if useless and not even_so:
        raise UselessRequestError(tuple(useless))
    found: dict[str, Refinement] = {}
    held: dict[str, tuple[Holding, tuple[Step, ...]]] = {}
    try:
        for name, one in refinings.items():
            with named(name):
                if (recalled := one.recall()) is not None:
                    found[name] = recalled
                    continue
                steps = one.practise().steps
                check_space(steps)
                held[name] = one.hold(), steps
        for name in list(held):
            _, steps = held.pop(name)  # from here on it explains itself what is held
            progress = Progress(f"{refinings[name].problem.target.name} at {name}", show=show)
            with named(name):
                found[name] = refinings[name].run(progress, before_paying=partial(progress.expect, steps))
    except BaseException as error:
        places = ", ".join(held)
        if held and recurs(error):
            for holding, _ in held.values():
                with suppress(CuratorError):  # then it ends by itself
                    holding.close()
            error.add_note(f"what was held at {places} was given back")
        elif held:
            error.add_note(f"the price waits at {places} for an hour at most: the same call goes on where this ended")
        raise
    return {name: found[name] for name in refinings}
