"""A search for a stored release that is taken for what it is not: random declarations, random pairs of requests."""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import World, ZeroNoise, csv_text, manifest_text, open_world
from test_library import entries_of

from curator_service.datasets.repository import Dataset
from curator_service.identity.repository import Principal
from curator_service.kinds.gram.schema import GramRequest
from curator_service.kinds.registry import KINDS
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.accountant import Price
from curator_service.releases.preparation import prepare
from curator_service.releases.submission import AnswerKind

COLUMN_TYPES = ("numeric", "boolean", "categorical")
RULES = ("complete", "omit", "midpoint", "indicator")
MAPS: list[dict[str, Any]] = [
    {"map": "box"},
    {"map": "box"},
    {"map": "ball"},
    {"map": "ball", "norm": 1.2},
    {"map": "unit"},
    {"map": "unit_xy"},
]
STATISTICS = ("xtx", "xty", "yty", "lambda_min")
DATASETS, STORED, ASKED = 4, 20, 8


@pytest.fixture
def wealthy(tmp_path: Path) -> Iterator[World]:
    """Return a world whose answers are exact, and whose budget does not end."""
    with open_world(tmp_path, limit=Price(mu=50.0), noise=ZeroNoise()) as world:
        yield world


def declare(source: random.Random, world: World, name: str) -> Dataset:
    """Register a dataset of random columns, with values missing wherever they may be."""
    columns: list[tuple[str, str, str, tuple[Any, ...], str | None]] = []
    for i, (kind, rule) in enumerate(itertools.product(COLUMN_TYPES, RULES)):
        public: tuple[Any, ...] = {"numeric": (-1.0, 3.0), "boolean": ("no", "yes")}.get(kind, ("a", "b", "c"))
        columns.append((f"c{i}", kind, rule, public, None))
    source.shuffle(columns)
    columns = columns[: source.randint(7, len(columns))]
    rows = []
    for _ in range(40):
        row = {}
        for column, kind, rule, public, _unit in columns:
            value = repr(round(source.uniform(-2.0, 4.0), 3)) if kind == "numeric" else source.choice(public)
            row[column] = "" if rule != "complete" and source.random() < 0.2 else value
        rows.append(row)
    manifest, data = world.folder / f"{name}.toml", world.folder / f"{name}.csv"
    manifest.write_text(manifest_text(name, columns=columns), encoding="utf-8")
    data.write_text(csv_text(rows), encoding="utf-8")
    return world.curator.datasets.register(manifest, data, actor="operator:test")


def draw(source: random.Random, dataset: Dataset) -> dict[str, Any]:
    """Return a random request, which need not be a valid one."""
    names = list(dataset.manifest.by_name)
    source.shuffle(names)
    features = names[: source.randint(1, 5)]
    numbers = [name for name in names[len(features) :] if dataset.manifest.by_name[name].type != "categorical"]
    asked: dict[str, Any] = {
        "features": features,
        "targets": numbers[: source.choice((0, 1, 1, 2, 3))],
        "intercept": source.random() < 0.8,
        "rows": source.choice(MAPS),
        "price": {"mu": round(source.uniform(0.05, 0.2), 3)},
    }
    if source.random() < 0.5:
        allowed = STATISTICS if asked["targets"] else ("xtx", "lambda_min")
        asked["statistics"] = source.sample(allowed, source.randint(1, len(allowed)))
    if source.random() < 0.1:
        asked |= {"mechanism": "laplace", "price": {"epsilon": round(source.uniform(0.05, 0.2), 3)}}
    return asked


def vary(source: random.Random, dataset: Dataset, stored: dict[str, Any]) -> dict[str, Any]:
    """Return a request near a stored one: mostly a permutation or a part of it, for less."""
    asked = {**stored, "features": list(stored["features"]), "targets": list(stored["targets"])}
    for role in ("features", "targets"):
        source.shuffle(asked[role])
        if source.random() < 0.4 and len(asked[role]) > (role == "features"):
            asked[role].pop()
    if source.random() < 0.25 and len(asked["features"]) > 1:
        asked["targets"] = [*asked["targets"], asked["features"].pop()]
    if source.random() < 0.15 and asked["targets"]:
        asked["features"].append(asked["targets"].pop())
    if source.random() < 0.1:
        asked["intercept"] = not asked["intercept"]
    if source.random() < 0.15:
        asked["rows"] = source.choice([rows for rows in MAPS if rows["map"] == stored["rows"]["map"]])
    elif source.random() < 0.1:
        asked["rows"] = source.choice(MAPS)
    if source.random() < 0.3:
        allowed = STATISTICS if asked["targets"] else ("xtx", "lambda_min")
        asked["statistics"] = source.sample(allowed, source.randint(1, len(allowed)))
    by = source.choice((0.1, 0.1, 0.3, 0.5, 0.9, 1.0, 1.0, 1.2))
    asked["price"] = {name: value * by for name, value in stored["price"].items()}
    if source.random() < 0.1:
        laplace = stored.get("mechanism") == "laplace"
        asked["mechanism"], asked["price"] = ("gaussian", {"mu": 0.001}) if laplace else ("laplace", {"epsilon": 0.001})
    return asked


def read(world: World, dataset: Dataset, analyst: Principal, asked: dict[str, Any], key: str) -> tuple[Any, Any, Any]:
    """Ask the service; return where the answer is from, the answer, and the plan."""
    prepared = prepare(KINDS, dataset, GramRequest.model_validate(asked))
    release, kind = world.curator.releases.release(prepared, analyst, key)

    return kind, json.loads(release.answer), prepared


@pytest.mark.parametrize("seed", range(DATASETS))
def test_no_stored_release_is_taken_for_what_it_is_not(wealthy: World, seed: int) -> None:
    """Whatever is served is what a fresh computation gives, entry by entry, and nowhere noisier than asked."""
    source, world = random.Random(seed), wealthy
    dataset = declare(source, world, f"random{seed}")
    world.grant("ada", dataset.id)
    analyst = next(p for p in world.curator.identity.list_principals() if p.name == "ada")
    seen = dict.fromkeys(AnswerKind, 0)
    for i in range(STORED):
        stored = draw(source, dataset)
        for j in range(ASKED):
            asked = stored if j == 0 else vary(source, dataset, stored)
            try:
                kind, answer, prepared = read(world, dataset, analyst, asked, f"k{i}-{j}")
            except (RequestInvalid, ValueError):
                continue
            seen[kind] += 1
            if kind is AnswerKind.NEW:
                continue
            _, fresh, _ = read(world, dataset, analyst, asked | {"fresh": True}, f"f{i}-{j}")
            told = f"{asked} answered as {answer['request']}"
            assert entries_of(answer) == entries_of(fresh), told
            for part in ("xtx", "xty", "yty", "lambda_min"):
                assert (part in answer["statistics"]) is (part in fresh["statistics"]), told
            if "lambda_min" in fresh["statistics"]:
                assert answer["statistics"]["lambda_min"]["values"] == fresh["statistics"]["lambda_min"]["values"], told
            for role in ("features", "terms", "targets"):
                names = [[column["name"] for column in shown[role]] for shown in (answer, fresh)]
                assert sorted(names[0]) == sorted(names[1]), told
            assert answer["noise"]["distribution"] == fresh["noise"]["distribution"], told
            assert all(answer["noise"]["sd"][name] <= most for name, most in prepared.noise_sd.items()), told
    assert seen[AnswerKind.STORED] >= 3, seen
    assert seen[AnswerKind.DERIVED] >= 3, seen
    assert seen[AnswerKind.NEW] >= 3, seen
