"""The report page: self-contained, escaped, and its player data decode to what was given."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from sim.io.player import Layer, Shape, Take, player_data
from sim.io.report import (
    Curve,
    ExpectationRow,
    ExperimentRow,
    MeasureRow,
    ReportData,
    TermRow,
    format_number,
    report_html,
    write_report,
)
from sim.io.report_parameters import ParameterRow
from sim.io.report_tracks import Track

EVIL = "</script><img src=x onerror=alert(1)>&\"'$x ${y} <!--"


class Page(HTMLParser):
    """Tags, their attributes, and the text between them; unbalanced elements fail."""

    VOID = {"meta", "input", "br", "img", "link"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def data(self):
        scripts = [text for tag, text in self.texts if tag == "script"]
        return json.loads(scripts[0])


def full_report(text="cloth"):
    positions = np.random.default_rng(0).normal(size=(5, 4, 3))
    layers = [Layer(text, positions, triangles=[[0, 1, 2]], segments=[[2, 3]], point_size=4.0)]
    shapes = [Shape("sphere", (0, 1, 0), radius=0.2, name=text), Shape("plane", (0, 0, 0), name=text)]
    return ReportData(
        title=text, about=text, highlights=[(text, text)], takes=[Take(text, layers, shapes, np.arange(5) / 60)],
        curves=[Curve(text, [0, 1, 2], [3.0, float("nan"), 1.0], unit=text, log=True, reference=2.0)],
        parameters=[ParameterRow(text, 0.3, 0.01, text, -1e-7, (1e-4, 10.0), 0.01, 1e-4, True, text)],
        expectations=[ExpectationRow(text, text, 0.01, True), ExpectationRow(text, text, text, False)],
        terms=[TermRow(text, 160.0, 1.0)],
        experiments=[ExperimentRow(text, text, 1.0, {text: MeasureRow(1.0, 1.1, -0.0909, text)}, text)],
        summary=[(text, text)], results=[(text, text)],
        tracks=[Track(text, text, np.arange(3.0), np.zeros((3, 1, 3)), labels=[text])],
        notes=[text], facts=[(text, text)],
    )  # fmt: skip


def test_every_text_is_escaped():
    harmless, evil = Page(report_html(full_report())), Page(report_html(full_report(EVIL)))
    assert [tag for tag, _ in evil.tags] == [tag for tag, _ in harmless.tags]  # no text became an element
    shown = [text for tag, text in evil.texts if EVIL in text]
    assert len(shown) >= 15  # and it can still be read
    data = evil.data()
    assert data["takes"][0]["name"] == data["takes"][0]["layers"][0]["name"] == data["curves"][0]["name"] == EVIL


def test_the_page_needs_nothing_else():
    text = report_html(full_report())
    page = Page(text)
    for _, attributes in page.tags:
        assert not {"src", "href", "srcset", "action"} & set(attributes)
    outside = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert outside == {"http://www.w3.org/2000/svg"}  # a name space, never fetched
    assert "default-src 'none'" in text and "@import" not in text and "url(" not in text


def test_empty_parts_are_left_out():
    text = report_html(ReportData("chain"))
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag in ("section", "canvas", "table", "figure")]
    assert page.data() == {"takes": [], "tracks": [], "curves": []}


def test_the_badge_says_whether_expectations_hold():
    good, bad = ExpectationRow("a", "b", 1.0, True), ExpectationRow("a", "b", 1.0, False)
    assert 'class="badge ok">2 of 2 expectations met' in report_html(ReportData("t", expectations=[good, good]))
    assert 'class="badge failed">1 of 2 expectations met' in report_html(ReportData("t", expectations=[good, bad]))
    assert 'class="badge interrupted"' in report_html(ReportData("t", expectations=[good], status="interrupted"))
    assert 'class="badge' not in report_html(ReportData("t"))


def test_written_atomically(tmp_path):
    path = write_report(tmp_path / "report.html", full_report())
    assert path.read_text(encoding="utf-8") == report_html(full_report())
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_numbers_in_tables():
    assert format_number(0.00998) == "0.00998" and format_number(1007.23) == "1007"
    assert format_number(-1.2341e-7) == "−1.234e−7" and format_number(3e12) == "3e12"
    assert format_number(None) == "–" and format_number(float("inf")) == "not finite"
    assert format_number(np.array([3.0, 1.0, 2.0])) == "3, 1, 2"
    assert format_number(np.arange(5.0)) == "0 … 4 (5 values)"


def test_deviation_and_place_on_the_scale():
    row = ParameterRow("k", 33.0, 1007.0, bounds=(1.0, 1e5), true=1000.0, log=True)
    text = report_html(ReportData("t", parameters=[row]))
    assert "+0.70 %" in text
    place = float(re.search(r'class="final" cx="([\d.]+)"', text).group(1))
    assert place == pytest.approx(4 + 112 * np.log(1007) / np.log(1e5), abs=0.06)
    assert 'class="true"' in text and 'class="start"' in text


def test_gaps_and_axes_of_curves():
    data = Page(report_html(full_report())).data()["curves"][0]
    assert data["series"][0]["y"] == [3.0, None, 1.0] and data["log"] is True and data["references"] == [2.0]
    not_positive = report_html(ReportData("t", curves=[Curve("c", [0, 1], [0.0, 1.0], log=True)]))
    assert Page(not_positive).data()["curves"][0]["log"] is False


def take_of(*layers, fps=60, **options):
    """A take whose frames are kept after each step of 1 / fps."""
    return Take("t", layers, times=(np.arange(max(len(layer.positions) for layer in layers)) + 1) / fps, **options)


def decode(layer):
    """Positions (frames, points, 3) of a layer as the page reads them."""
    quantised = np.frombuffer(base64.b64decode(layer["positions"]), "<u2").reshape(layer["frames"], layer["points"], 3)
    values = np.array(layer["low"]) + np.array(layer["step"]) * quantised
    return np.where(quantised == 65535, np.nan, values)


def test_positions_survive_quantisation():
    positions = np.random.default_rng(1).uniform([-1, 0, 5], [1, 1e-3, 5], size=(7, 20, 3))  # flat along z
    positions[3, 4, 1] = np.nan
    (take,) = player_data([take_of(Layer("markers", positions, point_size=5))])
    back = decode(take["layers"][0])
    assert np.isnan(back[3, 4]).all() and np.isnan(back).sum() == 3
    seen = np.isfinite(positions).all(axis=2)
    error = np.abs(back - positions)[seen].max(axis=0)
    assert (error <= np.array([2, 1e-3, 0]) / 65534 / 2 * 1.001 + 1e-12).all()


def test_a_surface_ends_where_the_simulation_broke_down():
    positions = np.zeros((6, 3, 3))
    positions[:] = np.eye(3)
    positions[4, 1] = np.inf
    (take,) = player_data([take_of(Layer("s", positions, triangles=[[0, 1, 2]]), Layer("p", positions, point_size=3))])
    assert [layer["frames"] for layer in take["layers"]] == [4, 6] and take["frames"] == 6
    broken = np.full((2, 3, 3), np.nan)
    (take,) = player_data([take_of(Layer("s", broken, triangles=[[0, 1, 2]]))])
    assert take["layers"][0]["frames"] == 0 and np.isfinite(take["box"]).all()


def test_the_view_ignores_what_flew_away():
    calm = np.random.default_rng(2).uniform(0, 1, size=(10, 50, 3))
    wild = calm.copy()
    wild[5:] *= 1e8
    (take,) = player_data([take_of(Layer("a", calm), Layer("b", calm + 0.1), Layer("c", wild))])
    low, high = np.array(take["box"])
    assert (low > -0.5).all() and (high < 1.5).all()


def test_times_of_the_frames():
    """A frame that is kept after a step is at the end of that step, also where frames are left out."""
    positions = np.zeros((30, 4, 3))
    (take,) = player_data([take_of(Layer("a", positions), fps=50)], max_bytes=500)
    assert take["stride"] > 1
    shown = take["begin"] + np.arange(take["layers"][0]["frames"]) * take["stride"] * take["interval"]
    np.testing.assert_allclose(shown, (np.arange(30) + 1)[:: take["stride"]] / 50, rtol=1e-12)


def test_up_is_normalised_and_long_takes_are_thinned():
    positions = np.random.default_rng(3).normal(size=(100, 10, 3))
    (take,) = player_data([take_of(Layer("a", positions), up=(0, 0, 9.81))], max_bytes=3000)
    assert take["up"] == [0, 0, 1]
    assert take["stride"] == 3 and take["layers"][0]["frames"] == 34
    np.testing.assert_allclose(decode(take["layers"][0]), positions[::3], atol=1e-3)


@pytest.mark.parametrize(
    "make, what",
    [
        (lambda: Layer("a", np.zeros((3, 3))), "expected (frames, n, 3)"),
        (lambda: Layer("a", np.zeros((1, 3, 3)), triangles=[[0, 1]]), "expected (count, 3)"),
        (lambda: Layer("a", np.zeros((1, 3, 3)), segments=[[0, 3]]), "outside of its 3 points"),
        (lambda: Layer("a", np.zeros((1, 3, 3)), color="red;}"), "not a colour"),
        (lambda: Shape("sphere", (0, 0, 0), color="url(x)"), "not a colour"),
        (lambda: Shape("cube", (0, 0, 0)), "there are `sphere` and `plane`"),
        (lambda: Layer("a", np.zeros((1, 3, 3)), dots=[[0]]), "expected (count,)"),
        (lambda: Layer("a", np.zeros((1, 3, 3)), side="left"), "there are `before` and `after`"),
        (lambda: Take("t", [Layer("a", np.zeros((3, 3, 3)))], times=[0.0, 0.1]), "2 times for 3 frames"),
        (lambda: Take("t", [Layer("a", np.zeros((3, 3, 3)))], times=[0.0, 0.1, 0.3]), "not evenly spaced"),
    ],
)
def test_mistakes_of_the_caller(make, what):
    with pytest.raises(ValueError, match=re.escape(what)):
        make()
