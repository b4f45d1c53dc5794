"""A run's page: what it says is what the ledger says, and a browser opens it without an error."""

import json
import re
import shutil
from dataclasses import replace

import pytest
from engineer_samples import SIZES, ScriptedTrainer

from mapflake.engineer import EngineerParams, RoundSettings, Start, run_arm, run_round
from mapflake.env import EnvConfig, generate
from mapflake.plots.page import NOT_TOLD, changed_most, page
from mapflake.trainer import evaluate

HOSTILE = "</script><img src=x onerror=document.title='owned'>"
GOOD = "size3 p50 p10 p50 size4 p50 p00 any end"
VALIDATION = generate(EnvConfig.uniform(SIZES, 0.15), 12, seed=1, split="validation")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="module")
def arms(tmp_path_factory):
    """Two arms of two rounds: one designs, the other's replies are refused, and look like markup."""
    folder = tmp_path_factory.mktemp("run")

    def settings(name, reply):
        return RoundSettings(folder / name, ScriptedTrainer(VALIDATION, [reply]), VALIDATION, seed=3)

    first = run_round(settings("first", GOOD), (), start=Start("warm", EnvConfig.uniform(SIZES, 0.2, 0.25)))
    options = {"rounds": 2, "sizes": SIZES, "params": EngineerParams(samples=1)}
    replies = {"designs": GOOD, "refused": HOSTILE}
    return {name: run_arm("engineer", settings(name, reply), (first,), **options) for name, reply in replies.items()}


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_the_page_says_what_the_ledger_says(arms):
    html = page(arms, title="a <run>", about="one & all")
    assert "<title>a &lt;run&gt;</title>" in html
    assert "one &amp; all" in html
    assert len(html.encode()) < 5e6
    data = data_of(html)
    assert [arm["name"] for arm in data["arms"]] == ["designs", "refused"]
    for arm, history in zip(data["arms"], arms.values(), strict=True):
        for row, r in zip(arm["rounds"], history, strict=True):
            assert {size["size"]: size["share"] for size in row["config"]} == r.config.data_ratios
            assert row["reply"] == (r.proposal.reply if r.proposal else "")
            assert row["rejected"] == (r.proposal.rejection if r.proposal else None)
        assert [row["report"] for row in arm["rounds"]] == ["", *(r.report.to_text() for r in history[:-1])]
    assert len(data["boards"]) == 10
    for board in data["boards"]:
        assert {name: len(plans) for name, plans in board["plans"].items()} == dict.fromkeys(arms, 3)
    valid = {(row["arm"], row["round"]): row["valid"] for row in data["charts"]["valid"]["data"]["values"]}
    assert valid == {(name, r.index): r.report.valid_rate for name, history in arms.items() for r in history}


def test_a_report_that_was_not_told_is_not_shown(arms):
    parameters = {"another's": {"told_sha256": "0"}, "none": {"engineer": {"variant": "schema"}}}
    told = {name: [replace(r, parameters={"about": x}) for r in arms["designs"]] for name, x in parameters.items()}
    for arm in data_of(page(told, title=""))["arms"]:
        assert [row["report"] for row in arm["rounds"]] == ["", NOT_TOLD, NOT_TOLD]


def test_boards_that_changed_come_first_and_sizes_take_turns(arms):
    history = arms["designs"]
    first = {rollout.task.instance.key: rollout for rollout in evaluate.load_rollouts(history[0].files["rollouts"])}
    keys = [key for key, rollout in first.items() if rollout.verdict.valid][:2]
    failure = next(rollout for rollout in first.values() if not rollout.verdict.valid)
    later = {key: failure if key in keys else rollout for key, rollout in first.items()}
    assert {*keys} <= {*changed_most({"arm": [first, later]}, 4)}
    sizes = [first[key].task.instance.size for key in changed_most({"arm": [first, first]}, 4)]
    assert sizes == [3, 4, 5, 6]


@pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no Chromium with its driver here: apt-get install chromium-driver && make test"
)
def test_a_browser_loads_it_without_error(arms, tmp_path):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    flags = ["headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"]
    for flag in [*flags, "window-size=500,900", "disable-background-networking", "disable-component-update"]:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    path = tmp_path / "report.html"
    path.write_text(page(arms, title="a run"))
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)) as browser:
        browser.implicitly_wait(20)  # the charts are drawn after the page has loaded
        browser.execute_cdp_cmd("Network.enable", {})
        offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        browser.get(path.as_uri())
        for chart in ("valid", "design", "kinds"):
            browser.find_element("css selector", f"#{chart} svg")
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        browser.execute_script("const arm = document.getElementById('arm'); arm.value = 1; arm.onchange()")
        assert browser.find_element("css selector", "#reply").text == HOSTILE
        assert browser.title == "a run"
        for button in ("#rounds button:nth-child(1)", "#boards button:nth-child(2)", "#step", "#play", "#play"):
            browser.execute_script("document.querySelector(arguments[0]).click()", button)
        assert browser.find_element("css selector", "#asked").text.startswith("Round 0")
        assert len(browser.find_elements("css selector", "#plays svg")) == 2
        messages = [entry["message"] for entry in browser.get_log("browser") if entry["level"] != "INFO"]
    assert messages == []
