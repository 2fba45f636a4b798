"""Time of each conversion between an account's integer and (ε, δ): the first call, and one that is remembered.

Then what a request pays in conversions in all: the price to units, and the cost and what is left seen as ε.

    python -m bench.conversions
"""

import statistics
import time
from collections.abc import Callable, Iterable
from fractions import Fraction

from curator_service.privacy.accountant import ACCOUNTANTS, GDP, PURE, ZCDP, Accountant, Price
from curator_service.privacy.conversions import (
    GDP_CURVE,
    UNITS_PER_ONE,
    ZCDP_CURVE,
    affordable_epsilon,
    epsilon_of_units,
    exact,
    mu_squared_of_pure,
    units_of_epsilon_delta,
)

PRICES = [(e, d) for e in (0.01, 0.1, 0.3, 1.0, 3.0, 10.0) for d in (1e-9, 1e-6, 1e-5)]
_CACHES = (units_of_epsilon_delta, epsilon_of_units, affordable_epsilon, mu_squared_of_pure)


def forget() -> None:
    """Empty every memory of conversions."""
    for function in _CACHES:
        function.cache_clear()


def measure(calls: Iterable[Callable[[], object]]) -> tuple[float, float, float]:
    """Return microseconds: the median and the largest first call, and the median of a call that is remembered."""
    first, again = [], []
    for call in calls:
        forget()
        start = time.perf_counter()
        call()
        first.append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(100):
            call()
        again.append((time.perf_counter() - start) / 100)
    return statistics.median(first) * 1e6, max(first) * 1e6, statistics.median(again) * 1e6


def request(accountant: Accountant, price: Price, limit: int, delta: float) -> Callable[[], object]:
    """Return what a request asks of the conversions."""

    def act() -> None:
        units = accountant.units_of(price)
        accountant.spent(units, delta)
        accountant.affordable(limit - units, delta)

    return act


def main() -> None:
    """Measure and print two tables."""
    print("| conversion | curve | first call, µs (median) | largest, µs | remembered, µs |")
    print("| --- | --- | ---: | ---: | ---: |")
    for curve, accountant in ((GDP_CURVE, GDP), (ZCDP_CURVE, ZCDP)):
        amounts = [(accountant.units_of(Price(epsilon=e, delta=d)), exact(d)) for e, d in PRICES]
        asked = [(exact(e), exact(d)) for e, d in PRICES]
        rows: dict[str, list[Callable[[], object]]] = {
            "(ε, δ) to units": [lambda a=a, c=curve: units_of_epsilon_delta(c, *a) for a in asked],
            "units spent to ε": [lambda a=a, c=curve: epsilon_of_units(c, *a) for a in amounts],
            "units left to ε": [lambda a=a, c=curve: affordable_epsilon(c, *a) for a in amounts],
        }
        for name, calls in rows.items():
            first, worst, again = measure(calls)
            print(f"| {name} | {curve.name} | {first:,.0f} | {worst:,.0f} | {again:.1f} |")
    first, worst, again = measure([lambda e=e: mu_squared_of_pure(Fraction(e)) for e in (0.01, 0.1, 1, 10, 100)])
    print(f"| pure ε to µ² | gdp | {first:,.0f} | {worst:,.0f} | {again:.1f} |")

    print("\n| a request's conversions in all | first, µs (median) | largest, µs | remembered, µs |")
    print("| --- | ---: | ---: | ---: |")
    for accountant in ACCOUNTANTS.values():
        calls = []
        for epsilon, delta in PRICES:
            price = Price(epsilon=epsilon, delta=None if accountant is PURE else delta)
            limit = accountant.units_of(price) * 5 + UNITS_PER_ONE // 1000
            calls.append(request(accountant, price, limit, delta))
        first, worst, again = measure(calls)
        print(f"| {accountant.name} | {first:,.0f} | {worst:,.0f} | {again:.1f} |")


if __name__ == "__main__":
    main()
