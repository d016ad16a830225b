"""The page in a real browser: FEDSVP_BROWSER names a Chromium, else skipped.

`make test-browser` finds one, or installs it.

A script at the page's end plays the reader and leaves what it saw in an element;
the browser is told to print the document. No driver and no network are needed.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser import VIRTUAL_TIME, WATCH, dumped, needs_browser, seen
from scored_runs import SCHEMA, SCORES, scored
from small_folders import Row, change, write_rows
from small_runs import digits, read_rows, small

from fedsvp_jax import report, run
from fedsvp_jax.report import epsilon_page, read
from fedsvp_jax.report import page as pages

pytestmark = needs_browser


def play(page: Path, script: str, tmp_path: Path) -> Any:
    """Opens the page, runs the async script's body, returns what it returns."""
    reader = f"""<script>(async () => {{
      const wait = (ms) => new Promise((done) => setTimeout(done, ms));
      const why = () => document.getElementById("why").textContent;
      await window.STARTED; // undefined of a page without plots
      await wait(500);
      let seen;
      try {{ seen = await (async () => {{ {script} }})(); }}
      catch (error) {{ ERRORS.push(String(error)); }}
      const note = document.createElement("output");
      note.id = "seen";
      note.textContent = JSON.stringify({{ seen, errors: ERRORS }});
      document.body.append(note);
    }})();</script>"""
    text = page.read_text().replace("<head>", "<head>" + WATCH, 1)
    played = tmp_path / "played.html"
    played.write_text(text.replace("</body>", reader + "</body>"))
    done = dumped(played, tmp_path, VIRTUAL_TIME)
    result = seen(done)
    assert result["errors"] == []
    assert "CONSOLE" not in done.stderr
    return result["seen"]


# METHODS.md, sections 1 and 2: U_p = .3, U_a = .5, U_all = .6 -> ψ = .2, .4, R = 1/3,
# T = 1/3 + 7.824046; C = 20, ε = .2, δ = .02 and |D| = 1000 give σ = 40·√T/200. From R
# = 0 to R = 1 the noise grows by √(8.824046/7.824046) − 1 = 6.2 %.
CHAIN = {
    "shapley_values": [0.2, 0.4],
    "utilities": [0.0, 0.3, 0.5, 0.6],
    "contribution_ratio": 1 / 3,
    "released_ratio": 1 / 3,
    "risk_tolerance": 8.157379,
    "noise_std": 0.571222,
    "sensitivity": 0.04,
    "epsilon": 0.2,
    "delta": 0.02116,
    "num_examples": 1000,
}


def page_of(run_dir: Path, *uploads: Row, **settings: Any) -> Path:
    """The page of a real run whose rows of clients.jsonl are these uploads."""
    published = {"l2_norm_clip": 20.0, "epsilon": 0.2, "delta": 0.02}
    change(run_dir / "config.json", **published, **settings)
    change(run_dir / "summary.json", by_client=None)  # of other clients
    row = read_rows(run_dir / "clients.jsonl")[0] | CHAIN
    write_rows(run_dir / "clients.jsonl", [row | upload for upload in uploads])
    return report.write_run_report(run_dir)


def test_the_panel_tells_the_recorded_chain(run_dir: Path, tmp_path: Path) -> None:
    quiet = {"round": 3, "client": 1, "noise_std": 0.1}
    page = page_of(run_dir, {"round": 3, "client": 0}, quiet)
    text = play(page, "return why();", tmp_path)
    for words in (
        "Why did client 0 add this much noise in round 3?",
        "class 5 (private) ψ = 0.2, classes 0,1,2,3,4,6,7,8,9 ψ = 0.4; their sum is",
        "the contribution ratio R = 0.3333.",
        "T = R − ln δ², σ = Δ·√max(T, β)/ε",
        "at most 6.2 %",
        "σ = 0.5712, risk tolerance T = 8.157, ε = 0.2, sensitivity Δ = 0.04",
        "δ′ = 0.02116 (nominal",
        "assumes a sensitivity of 2C/",
        "σ itself leaks R",
    ):
        assert words in text, words


def test_the_camera_above_a_plot_saves_it_as_svg(run_dir: Path, tmp_path: Path) -> None:
    script = """
      const blobs = [], names = [];
      const make = URL.createObjectURL;
      URL.createObjectURL = (blob) => { blobs.push(blob); return make(blob); };
      HTMLAnchorElement.prototype.click = function () { names.push(this.download); };
      document.querySelector("#plot-accuracy [data-title^=Download]").click();
      await wait(2000);
      return [names, await Promise.all(blobs.map((blob) => blob.text()))];
    """
    names, texts = play(report.write_run_report(run_dir), script, tmp_path)
    assert names == ["accuracy.svg"] and texts[0].startswith("<svg")


def test_the_panel_tells_the_upload_that_is_asked_for(
    run_dir: Path, tmp_path: Path
) -> None:
    """One whose R was clipped and then released as .9, and one that is not there."""
    released = {"contribution_ratio": 0.0, "released_ratio": 0.9}
    page = page_of(
        run_dir,
        {"round": 2, "client": 20},
        {"round": 1, "client": 0} | released,
        clipping="update_clip",
        contribution_release="laplace",
    )
    script = """
      const ask = async (client, round) => {
        document.getElementById("cell-client").value = client;
        document.getElementById("cell-round").value = round;
        document.getElementById("cell-form").requestSubmit();
        await wait(100);
        return why();
      };
      return [await ask(0, 1), await ask(5, 2)];"""
    there, absent = play(page, script, tmp_path)
    assert "R = 0. The noise was computed with R = 0.9, as --contribution" in there
    assert "leaks R" not in there and "nominal: it assumes" not in there
    assert absent == "Client 5 did not upload in round 2."


def test_the_panel_says_where_the_noise_of_per_example_is(tmp_path: Path) -> None:
    run.train(small(clipping="per_example"), tmp_path / "run", dataset=digits())
    script = """
      const fields = [...document.getElementById("cell-field").options];
      return [why(), fields.map((option) => option.value)];"""
    text, fields = play(report.write_run_report(tmp_path / "run"), script, tmp_path)
    rows = read_rows(tmp_path / "run" / "clients.jsonl")
    most = max(row["step_noise_std"] for row in rows)
    assert f"σ = {most:.4g} was added to the gradient of every local" in text
    assert "step_noise_std" in fields and "noise_std" not in fields


def test_a_reader_can_click_press_keys_and_download(
    run_dir: Path, tmp_path: Path
) -> None:
    script = """
      const map = document.getElementById("cells");
      const start = document.querySelector("#why h3").textContent;
      map.scrollIntoView();
      await mouse(map, ...topCell(map));
      const hover = map.querySelector(".hoverlayer").textContent;
      const clicked = document.querySelector("#why h3").textContent;
      const press = async (key) => {
        map.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        await wait(50);
        return document.getElementById("cell-client").value;
      };
      const below = await press("ArrowDown");
      const above = await press("ArrowUp");
      // Kept as it is written: reading a Blob waits for another process, and the
      // browser's clock runs on meanwhile, past its budget on a busy machine.
      const files = [];
      window.Blob = class extends Blob {
        constructor(parts, ...more) {
          super(parts, ...more);
          files.push(parts.join(""));
        }
      };
      URL.createObjectURL = () => "#";
      for (const button of document.querySelectorAll("button[data-csv]")) {
        button.click();
      }
      const menu = document.getElementById("cell-field");
      menu.value = "noise_std";
      menu.dispatchEvent(new Event("change"));
      await wait(100);
      const bar = map.data[0].colorbar.title.text;
      return { start, hover, clicked, above, below, files, bar };
      async function mouse(map, row, column) {
        const { _fullLayout: full } = map;
        const layer = map.querySelector(".nsewdrag");
        const box = layer.getBoundingClientRect();
        const at = { bubbles: true, cancelable: true, view: window,
          clientX: box.left + full.xaxis.c2p(column),
          clientY: box.top + full.yaxis.c2p(row) };
        layer.dispatchEvent(new MouseEvent("mouseover", at));
        layer.dispatchEvent(new MouseEvent("mousemove", at));
        await wait(300);
        layer.dispatchEvent(new MouseEvent("mousedown", at));
        await wait(50);
        const cover = document.querySelector(".dragcover") ?? layer;
        cover.dispatchEvent(new MouseEvent("mouseup", at));
        await wait(300);
      }
      function topCell(map) {
        const z = map.data[0].z;
        return [z.length - 1, z.at(-1).findIndex((v) => v !== null)];
      }"""
    seen = play(report.write_run_report(run_dir), script, tmp_path)
    rows = read_rows(run_dir / "clients.jsonl")
    clients = sorted({row["client"] for row in rows})
    top = clients[-1]
    assert not seen["start"].startswith(f"Why did client {top} ")
    assert seen["hover"].startswith(f"client {top}, round ")
    assert "δ′" in seen["hover"]
    assert seen["clicked"].startswith(f"Why did client {top} add this much noise")
    assert (seen["below"], seen["above"]) == (str(clients[-2]), str(top))
    assert seen["bar"] == "noise σ"
    cells = next(f for f in seen["files"] if f.startswith("round,client,"))
    assert cells.count("\n") == 1 + 6 * 3
    assert "utilities_3" in cells
    assert any(f.startswith("series,round,accuracy\ntest,2,") for f in seen["files"])


def test_a_comparison_opens_without_an_error(
    run_dir: Path, sweep_dir: Path, tmp_path: Path
) -> None:
    compared = report.write_compare_report([run_dir, sweep_dir], tmp_path / "both")
    script = """
      const files = [];
      window.Blob = class extends Blob {
        constructor(parts, ...more) {
          super(parts, ...more);
          files.push(parts.join(""));
        }
      };
      URL.createObjectURL = () => "#";
      document.querySelector("button[data-csv=table]").click();
      return { csv: files[0],
        drawn: document.querySelectorAll(".plot .main-svg").length };"""
    seen = play(compared, script, tmp_path)
    assert seen["drawn"] >= 5
    assert seen["csv"].startswith("folder,mechanism,ε per upload at its own δ,")
    assert "\nrun,FedSVA,0.5," in seen["csv"]


def test_an_epsilon_is_chosen_by_the_keyboard_and_everything_follows(
    sweep_dir: Path, tmp_path: Path
) -> None:
    """On a phone's width nothing is cut off either."""
    report.write_sweep_report(sweep_dir)
    script = """
      const at = (id) => document.getElementById(id);
      const state = () => ["eps-value", "claim", "right", "accuracy", "status"]
        .map((id) => at(id).textContent);
      const first = state();
      at("eps").focus();
      at("eps").stepUp();
      at("eps").dispatchEvent(new Event("input"));
      const next = state();
      at("who-noise").value = "FedSVA";
      at("who-noise").dispatchEvent(new Event("input"));
      const other = state();
      at("adversary").selectedIndex = at("adversary").length - 1;
      at("adversary").dispatchEvent(new Event("input"));
      const weaker = state();
      document.body.style.width = "390px";
      const controls = [...document.querySelectorAll("input, select, summary")];
      const nameless = controls.filter((one) => !one.hidden && !(
        one.labels?.[0]?.textContent.trim() || one.textContent.trim()));
      return { first, next, other, weaker, said: at("eps").ariaValueText
          ?? at("eps").getAttribute("aria-valuetext"),
        filled: document.querySelectorAll(".people .right").length,
        wide: document.getElementById("choose").scrollWidth,
        nameless: nameless.length, delta: at("delta").textContent };"""
    seen = play(sweep_dir / "epsilon.html", script, tmp_path)
    told = json.loads((sweep_dir / "epsilon.json").read_text())["points"]
    steps = [float(seen[name][0]) for name in ("first", "next")]
    assert steps == pytest.approx([one["epsilon"] for one in told[:2]], rel=0.01)
    assert seen["other"][1].startswith("Against the server, which sees")
    assert "whoever sees the published model" in seen["weaker"][1]
    assert float(seen["weaker"][2]) <= float(seen["other"][2])
    assert seen["filled"] == int(seen["weaker"][2]) and seen["nameless"] == 0
    assert seen["said"] == f"ε = {seen['weaker'][0]}" and seen["delta"] == "1e-05"
    assert {seen[name][4] for name in ("first", "weaker")} == {"nominal"}
    assert seen["wide"] <= 390


def test_a_plan_opens_at_its_middle_epsilon_and_keeps_it(
    sweep_dir: Path, tmp_path: Path
) -> None:
    """It opened, and printed, the least ε, and went back to it with each trust."""
    content = epsilon_page.document(read.read_sweep(sweep_dir))
    (point, *_) = content["points"]
    point["accuracy"] |= {"needed": 0.62, "tried": [[0.58], [0.8]]}
    points = [point | {"epsilon": epsilon} for epsilon in (1, 3, 8)]
    points += [point | {"mechanism": "other"} for point in points]
    content |= {"points": points, "choice": "trust", "opens": 1}
    content["reference"] |= {"best": [0.6, 0.9], "needed": 0.6, "tried": [[0.6], [0.8]]}
    page, _ = epsilon_page.write_epsilon_page(tmp_path / "plan", content)
    script = """
      const at = (id) => document.getElementById(id);
      const first = at("eps-value").textContent;
      at("who-noise").selectedIndex = 1;
      at("who-noise").dispatchEvent(new Event("input"));
      return [first, at("eps-value").textContent];"""
    assert play(page, script, tmp_path) == ["3", "3"]


def test_every_control_has_a_name_and_a_key_and_none_sends_anything_away(
    run_dir: Path, tmp_path: Path
) -> None:
    """plotly.js has a button that uploads a plot's data."""
    script = """
      const controls = [...document.querySelectorAll(
        "button, select, input, summary, main a, [role=application]")];
      const nameless = controls.filter((one) => !(one.textContent.trim()
        || one.getAttribute("aria-label") || one.labels?.[0]?.textContent.trim()));
      const unreached = controls.filter((one) => { one.focus();
        return document.activeElement !== one; });
      const titles = [...document.querySelectorAll(".modebar-btn")]
        .map((button) => button.dataset.title);
      return [controls.length, nameless.length, unreached.length, titles];"""
    page = report.write_run_report(run_dir)
    count, nameless, unreached, titles = play(page, script, tmp_path)
    assert count > 12 and (nameless, unreached) == (0, 0)
    assert "Download plot" in titles
    assert not [t for t in titles if re.search("share|cloud|edit", t, re.IGNORECASE)]


@pytest.mark.hole
def test_a_plot_on_paper_is_as_wide_as_the_paper(run_dir: Path, tmp_path: Path) -> None:
    """It kept the screen's pixels and was cut at the right; rules of print apart."""
    script = """
      const widths = () => [...document.querySelectorAll(".js-plotly-plot .main-svg")]
        .map((svg) => Number(svg.getAttribute("width")));
      const before = widths();
      dispatchEvent(new Event("beforeprint"));
      await wait(300);
      const paper = widths();
      dispatchEvent(new Event("afterprint"));
      await wait(300);
      return { before, paper, after: widths() };
    """
    seen = play(report.write_run_report(run_dir), script, tmp_path)
    assert max(seen["paper"]) <= 640 and max(seen["before"]) != max(seen["paper"])
    assert seen["after"] == seen["before"]


def test_the_officers_page_is_one_sheet_and_its_details(
    run_dir: Path, tmp_path: Path
) -> None:
    """It was three sheets before the details began."""
    scored(run_dir)
    columns = "".join(
        f"[columns.blood_pressure_{n}]\ntype = 'number'\nbounds = [0, 300]\n"
        for n in range(14)
    )
    (run_dir / "schema.toml").write_text(SCHEMA + columns)
    report.write_run_report(run_dir)
    page = tmp_path / "front.html"
    text = (run_dir / "protection.html").read_text()
    page.write_text(text.replace("#details {", "#details, footer { display: none;"))
    dumped(page, tmp_path, f"--print-to-pdf={tmp_path / 'front.pdf'}")
    assert (tmp_path / "front.pdf").read_bytes().count(b"/Type /Page\n") == 1


def test_what_a_board_decides_by_is_the_first_sheet(
    run_dir: Path, tmp_path: Path
) -> None:
    """All else follows on sheets of its own."""
    own = {"pairs": 9, "auc": [0.6, 0.5], "difference": 0.1, "interval": [0.0, 0.2]}
    (run_dir / "reference.json").write_text(json.dumps(SCORES | {"alone": own}))
    scored(run_dir, auc=0.999, auc_interval=[0.985, 1.0])
    page, file = tmp_path / "front.html", tmp_path / "front.pdf"
    rest = "#board ~ section, footer { display: none; } #board {"
    text = (run_dir / "report.html").read_text()
    page.write_text(text.replace("#board { break-after: page;", rest))
    dumped(page, tmp_path, f"--print-to-pdf={file}")
    assert file.read_bytes().count(b"/Type /Page\n") == 1


@pytest.mark.hole
def test_a_legend_on_paper_leaves_the_axis_title_alone(
    sweep_dir: Path, tmp_path: Path
) -> None:
    """The title "round" stood on the legend's first line, as the plot was narrower."""
    script = """
      dispatchEvent(new Event("beforeprint"));
      await wait(300);
      return [...document.querySelectorAll(".js-plotly-plot")].map((plot) => {
        const [title, legend] = [".xtitle", ".legend"].map(
          (name) => plot.querySelector(name)?.getBoundingClientRect());
        return legend ? legend.top - title.bottom : 0;
      });
    """
    gaps = play(report.write_sweep_report(sweep_dir), script, tmp_path)
    assert len(gaps) > 3 and min(gaps) >= 0


def test_names_in_plots_are_text_and_pages_fit_a_phone(
    run_dir: Path, tmp_path: Path
) -> None:
    """plotly.js reads a subset of HTML in names; a download keeps them as they are."""
    name = '<b>"a"</b> & <i>b</i>'
    change(run_dir / "summary.json", attributes=[name, "others"])
    script = """
      const legend = document.querySelector("#plot-attributes .legend").textContent;
      const files = [];
      window.Blob = class extends Blob {
        constructor(parts, ...more) {
          super(parts, ...more);
          files.push(parts.join(""));
        }
      };
      URL.createObjectURL = () => "#";
      document.querySelector("button[data-csv=attributes]").click();
      document.body.style.width = "390px";
      window.dispatchEvent(new Event("resize"));
      await wait(500);
      const parts = [...document.querySelectorAll("figure, .scroll, .facts")];
      const shares = document.getElementById("plot-accuracy")._fullLayout.yaxis;
      return { legend, csv: files[0], shares: [shares.minallowed, shares.maxallowed],
        wide: Math.max(...parts.map((part) => part.scrollWidth)) };"""
    seen = play(report.write_run_report(run_dir), script, tmp_path)
    assert name in seen["legend"]
    assert '"<b>""a""</b> & <i>b</i>",1,' in seen["csv"]
    assert seen["wide"] <= 390 and seen["shares"] == [-0.03, 1.03]  # of 0 to 100 %
    script = """
      document.body.style.width = "390px";
      return document.querySelector("main").scrollWidth;"""
    assert play(run_dir / "protection.html", script, tmp_path) <= 390


def test_a_flag_is_not_broken_after_its_hyphens(run_dir: Path, tmp_path: Path) -> None:
    script = """
      const flags = [...document.querySelectorAll("#main .flag")];
      return flags.map((one) => [one.textContent, one.getClientRects().length]);"""
    flags = play(page_of(run_dir), script, tmp_path)
    assert ["--output_dir", 1] in flags and {lines for _, lines in flags} == {1}


def test_pictures_have_the_pixels_of_their_images(tmp_path: Path) -> None:
    grey, colour = [[[7], [200]]], [[[255, 0, 9]], [[1, 2, 3]]]
    pictures = {'<b>"&': [grey], "colour": [colour]}
    path = pages.write(tmp_path / "p.html", "pictures.html", pictures=pictures)
    script = """
      return [...document.querySelectorAll("canvas")].map((canvas) => [
        canvas.width, canvas.height, ...canvas.getContext("2d").getImageData(
          0, 0, canvas.width, canvas.height).data]);"""
    assert play(path, script, tmp_path) == [
        [2, 1, 7, 7, 7, 255, 200, 200, 200, 255],
        [1, 2, 255, 0, 9, 255, 1, 2, 3, 255],
    ]
