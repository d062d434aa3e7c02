"""User code by module path or by value, and what is told when it can't be had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streammine.model.errors import UserCodeError
from streammine.operators.api import Mapper
from streammine.operators.loading import load_user_code
from streammine.operators.user.adapting import adapted
from tests.unit.user_code_samples import LINES, Words, lines


class TestLoading:
    def write(self, folder: Path, name: str, text: str) -> None:
        (folder / f"{name}.py").write_text(text)

    CODE = (
        "from streammine.operators.api import Mapper\n"
        "class Words(Mapper):\n"
        "    output = {'word': 'string'}\n"
        "    def __init__(self, threshold=1):\n"
        "        self.threshold = 10 // threshold\n"
        "    def map(self, event):\n"
        "        return event.line\n"
        "class Thing:\n"
        "    pass\n"
    )

    def test_a_class_is_found_from_the_topologys_folder_and_made_with_settings(
        self, tmp_path: Path
    ) -> None:
        self.write(tmp_path, "loading_words", self.CODE)
        code = load_user_code("loading_words:Words", tmp_path, {"threshold": 5})
        assert isinstance(code, Mapper)
        operator = adapted("words", code, [LINES])
        assert operator.apply(lines("x")).batch.num_rows == 1  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("spec", "settings", "message"),
        [
            ("loading_mistake:Wrods", {}, "has no 'Wrods'; did you mean 'Words'"),
            ("loading_mistakes:Words", {}, "no module 'loading_mistakes'.*'loading_mistake'"),
            ("loading_mistake:Thing", {}, "not a subclass of streammine.Mapper"),
            ("loading_mistake:Words", {"treshold": 1}, "did you mean 'threshold'"),
            ("loading_mistake:Words", {"threshold": 0}, "(?s)ZeroDivisionError.*threshold = 10"),
            ("loading_mistake", {}, "write it as package.module:Class"),
            ("loading_broken:Words", {}, "(?s)can't be imported:.*KeyError: 'x'"),
            ("value:mine", {}, "none was submitted"),
        ],
    )
    def test_a_mistake_is_told_with_what_would_be_right(
        self, tmp_path: Path, spec: str, settings: dict[str, Any], message: str
    ) -> None:
        self.write(tmp_path, "loading_mistake", self.CODE)
        self.write(tmp_path, "loading_broken", "table = {}\nprint(table['x'])\n")
        with pytest.raises(UserCodeError, match=message):
            load_user_code(spec, tmp_path, settings)

    def test_two_folders_may_hold_modules_of_one_name(self, tmp_path: Path) -> None:
        for word in ("one", "two"):
            (tmp_path / word).mkdir()
            self.write(tmp_path / word, "loading_same", self.CODE.replace("10 //", f"'{word}' or"))
        found = [
            load_user_code("loading_same:Words", tmp_path / word, {}) for word in ("one", "two")
        ]
        assert [code.threshold for code in found] == ["one", "two"]  # type: ignore[attr-defined]

    def test_code_by_value_comes_from_the_loader(self, tmp_path: Path) -> None:
        submitted = {"mine": Words}
        assert isinstance(load_user_code("value:mine", tmp_path, {}, submitted.get), Words)

    def test_a_name_of_pythons_own_module_is_refused(self, tmp_path: Path) -> None:
        self.write(tmp_path, "json", self.CODE)
        with pytest.raises(UserCodeError, match="rename the file"):
            load_user_code("json:Words", tmp_path, {})
