"""The page keeps to what makes it safe: no markup from text, nothing from outside, nothing that its policy forbids."""

import re
from collections import Counter

import pytest

from gym_core.viewer.assets import FOLDER, page_file, page_files
from gym_core.viewer.door import CONTENT_SECURITY_POLICY
from gym_core.viewer.export import bundle

MODULES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.js"))}
modules = pytest.mark.parametrize("name", sorted(MODULES))

_MAKES_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|setHTML|srcdoc"
    r"|\beval\b|new Function|setAttribute\(\"(?:style|on)|javascript:|import\("
)
_TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


@modules
def test_no_module_makes_markup_or_code_of_text(name: str) -> None:
    assert not _MAKES_MARKUP.findall(MODULES[name])


@modules
def test_no_module_asks_anybody_but_its_own_server(name: str) -> None:
    urls = set(re.findall(r"https?://[^\s\"'`]+", MODULES[name]))
    assert urls <= {"http://www.w3.org/2000/svg"}
    assert "EventSource" not in MODULES[name]
    assert ("fetch(" in MODULES[name]) == (name == "source.js")


def test_names_are_unique_over_all_modules_so_that_they_share_one_scope() -> None:
    counts = Counter(found for text in MODULES.values() for found in _TOP_LEVEL.findall(text))
    assert [found for found, count in counts.items() if count > 1] == []


def test_a_bundle_has_every_module_before_those_that_use_it_and_no_import() -> None:
    script = bundle(MODULES, "main.js")
    assert not re.search(r"^(?:import|export)\b", script, re.MULTILINE)
    assert "</script" not in script
    assert "<!--" not in script
    reached = {name for name, text in MODULES.items() if all(found in script for found in _TOP_LEVEL.findall(text))}
    assert reached == set(MODULES)
    assert script.index("function visibleNodes") < script.index("function h(") < script.index("function showRun(")


@modules
def test_imports_have_the_one_form_that_a_bundle_takes_apart(name: str) -> None:
    imports = re.findall(r"^import\b.*?;$", MODULES[name], re.MULTILINE | re.DOTALL)
    for line in imports:
        assert re.fullmatch(r"import \{[\w\s,]+\} from \"\./[a-z_]+\.js\";", line), line
        assert " as " not in line


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    html = page_files()["index.html"].content.decode()
    assert re.findall(r"<script([^>]*)>([^<]*)", html) == [(' type="module" src="/page/main.js"', "")]
    assert "style=" not in html
    assert "<style" not in html


def test_the_sheet_fetches_nothing() -> None:
    sheet = page_files()["style.css"].content.decode()
    assert "url(" not in sheet
    assert "@import" not in sheet
    assert "</style" not in sheet


def test_the_policy_allows_nothing_inline_and_nobody_else() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")


@pytest.mark.parametrize("name", ["../app.py", "/etc/passwd", "", ".", "assets.py", "main.js/"])
def test_files_of_the_page_are_found_in_a_list_and_never_by_path(name: str) -> None:
    assert page_file(name) is None
