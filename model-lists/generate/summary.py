"""What a list holds, in words and figures: its head comment and its part of the README."""

from __future__ import annotations

from collections import Counter

import choose
import classes
import facts

BEGIN = "<!-- contents: written by model-lists/generate, not by hand -->"
END = "<!-- end of contents -->"

PURPOSE = {
    "smoke": "every source and modality, for a run of minutes",
    "tier1": "crash-free: the models of the published Tier 1 size, chosen by popularity",
    "tier2": "parity: one model per model type, timm module and torchvision name",
    "dynamism": "bounded dynamism: causal language models with bounds on their lengths",
}


def head(name: str, lists: choose.Lists) -> str:
    """Comment at the top of a list."""
    figures = Figures(lists.lists[name])
    return "\n".join(
        [
            f"{name}: {PURPOSE[name]}.",
            f"Written by model-lists/generate from model-lists/facts, as of {snapshot()}; do not",
            "edit. README.md says how entries were chosen.",
            "",
            f"{figures.entries} entries, {figures.graphs} distinct graphs, "
            f"{figures.real_weights} with real weights, {figures.skipped} skipped.",
        ]
    )


class Figures:
    """Counts of one list."""

    def __init__(self, entries: list[choose.Entry]) -> None:
        data = [entry.data for entry in entries]
        self.entries = len(data)
        self.skipped = sum("skip" in one for one in data)
        self.graphs = len({entry.signature for entry in entries if entry.signature})
        self.measured = len(
            {e.signature for e in entries if e.signature and ":" not in e.signature}
        )
        self.real_weights = sum("real-weights" in one.get("tags", []) for one in data)
        self.sources = Counter(one["id"].split(":")[0] for one in data)
        self.dates = Counter(one["popularity"]["snapshot"] for one in data if "popularity" in one)
        self.pinned = sum(
            not one["revision"].startswith("facts-") for one in data if "revision" in one
        )
        self.with_batch = sum("batch" in one.get("dynamic", {}) for one in data)


def snapshot() -> str:
    """Date of the youngest ranking."""
    return next(iter(choose.RANKED))


def readme_part(lists: choose.Lists) -> str:
    """The generated part of the README, between its two marks."""
    figures = {name: Figures(lists.lists[name]) for name in PURPOSE}
    rows = [
        f"| `{name}.toml` | {PURPOSE[name]} | {one.entries:,} | {one.skipped:,} | {one.graphs:,} "
        f"| {one.real_weights} |"
        for name, one in figures.items()
    ]
    table = [
        "| file | what it holds | entries | of them skipped | distinct graphs | with real weights |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    parts = [table, *(_paragraphs(lists, figures))]
    return "\n\n".join([BEGIN, *("\n".join(part) for part in parts), END])


def _paragraphs(lists: choose.Lists, figures: dict[str, Figures]) -> list[list[str]]:
    libraries = ", ".join(f"{name} {version}" for name, version in facts.libraries().items())
    return [
        [
            "A *graph* is counted once for all entries that share it: for transformers the class with",
            "its tiny configuration, less what changes no operator (token ids, labels); for timm and",
            "torchvision the tree of modules with the shapes of parameters and buffers. Many entries",
            "are fine-tunes of one architecture, so read both figures together.",
            "",
            f"Of the graphs of tier1, {figures['tier1'].measured:,} were built and measured; each of the",
            "others is counted by its name, or by class and overrides, until `measure.py` has built it.",
            "",
            f"As of {snapshot()} and {libraries}. An entry that is in several lists is the same in",
            "all of them. Sorted by id.",
        ],
        _tier1(figures["tier1"]),
        _tier2(figures["tier2"]),
        _dynamism(figures["dynamism"]),
        _rules(lists),
        _measured(),
    ]


def _tier1(figures: Figures) -> list[str]:
    ranked = "; ".join(
        f"{figures.dates[date]:,} ranked in {date}" for date in choose.RANKED if figures.dates[date]
    )
    hub, classes_ = figures.sources["hub"], figures.sources["transformers"]
    return [
        f"**tier1**: {hub:,} hub models from the top of dated rankings by downloads ({ranked});",
        f"every timm architecture not known to fail ({figures.sources['timm']:,}), every torchvision",
        f"model that is not quantised ({figures.sources['torchvision']:,}), every model class of",
        f"transformers not known to fail ({classes_:,}), and {figures.real_weights} models with trained weights.",
        f"{figures.pinned:,} hub models name their commit; the others name the date of the facts.",
        f"{figures.skipped:,} popular hub models need code of their own repository, which is not",
        "executed: they stay in the list, skipped. Counts of different dates make no common ranking.",
    ]


def _tier2(figures: Figures) -> list[str]:
    return [
        f"**tier2**: the most downloaded hub model of each model type ({figures.sources['hub']:,}),",
        f"a class for each type without one ({figures.sources['transformers']:,}), the timm model",
        f"with most pretrained tags of each module ({figures.sources['timm']:,}), the first",
        f"{choose.TORCHVISION_TIER2} torchvision models by name, and {figures.real_weights} models with trained weights.",
    ]


def _dynamism(figures: Figures) -> list[str]:
    low, high = choose.SEQUENCE_BOUNDS.values()
    batch_low, batch_high = choose.BATCH_BOUNDS.values()
    return [
        f"**dynamism**: the {figures.entries:,} most downloaded causal language models of the youngest",
        f"ranking, no more than {choose.DYNAMISM_PER_TYPE} of one class. Lengths vary from {low} to",
        f"{high}; for the most downloaded model of each class ({figures.with_batch:,} entries) the",
        f"batch varies too, from {batch_low} to {batch_high}. Bounds begin at 2 because compilers",
        "make a graph of its own for size 1.",
    ]


def _rules(lists: choose.Lists) -> list[str]:
    left = [f"- {len(names):,} {reason}" for reason, names in sorted(lists.left_out.items())]
    left = left or [
        "- nothing so far, since failures were taken out of the record to be tried again"
    ]
    return [
        "Not counted as models: quantised repackagings and other formats of a model (by their id and",
        "their recorded format), pretrained tags of one timm architecture, and ids that only other",
        "projects' tests load. A hub model is built from its class and, where recorded, its geometry",
        "in proportion: heads per key-value head, head size, width, experts. Left out of `tier1`, with",
        "the reason of each in `facts/builds.tsv`:",
        "",
        *left,
    ]


def _measured() -> list[str]:
    builds = facts.builds()
    causal = classes.causal_classes()
    rates = {
        "causal classes of transformers": [
            b for b in builds if b.source == "transformers" and not b.overrides and b.name in causal
        ],
        "other classes of transformers": [
            b
            for b in builds
            if b.source == "transformers" and not b.overrides and b.name not in causal
        ],
        "timm models": [b for b in builds if b.source == "timm"],
        "torchvision models": [b for b in builds if b.source == "torchvision"],
    }
    wanted = len(choose.wanted_builds())
    lines = [
        f"`facts/builds.tsv` records {len(builds):,} of the {wanted:,} builds that the lists rest on, each",
        "with one forward call on the CPU where `tried` says `forward`, else built without memory:",
        "",
    ]
    for what, of in rates.items():
        built = sum(build.outcome == "ok" for build in of)
        forward = sum(build.tried == "forward" for build in of)
        share = f"{100 * built / len(of):.1f} %" if of else "none"
        lines.append(
            f"- {what}: {built:,} of {len(of):,} ({share}), {forward:,} with a forward call"
        )
    return [
        *lines,
        "",
        "An entry that cannot be built elsewhere is planned and counted all the same; a run reports it",
        "as `infra`, with its reason.",
    ]
