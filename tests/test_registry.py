import pytest

from hpfl.registry import Registry, UnknownNameError


def test_an_unknown_name_is_answered_with_the_known_ones():
    registry = Registry("thing")
    registry.register("left")(1)
    registry.register("right")(2)
    with pytest.raises(UnknownNameError, match="no thing is called 'up'; there are left, right"):
        registry.get("up")


def test_a_name_is_given_once():
    registry = Registry("thing")
    registry.register("left")(1)
    with pytest.raises(ValueError, match="registered twice"):
        registry.register("left")(2)


def test_parts_are_found_in_order_of_registration():
    registry = Registry("thing")
    for name in ("c", "a", "b"):
        registry.register(name)(name.upper())
    assert list(registry) == ["c", "a", "b"]
    assert registry.get("a") == "A"


def test_entry_points_of_other_packages_are_found(monkeypatch):
    class Point:
        name = "theirs"

        def load(self):
            return 42

    monkeypatch.setattr("hpfl.registry.entry_points", lambda group: [Point()] if group == "hpfl.things" else [])
    assert Registry("thing").get("theirs") == 42


def test_a_part_of_another_package_that_cannot_be_imported_is_told_in_a_sentence(monkeypatch):
    class Point:
        name = "theirs"
        value = "their_package:theirs"

        def load(self):
            raise ImportError("cannot import name 'Shard' from 'hpfl.data'")

    monkeypatch.setattr("hpfl.registry.entry_points", lambda group: [Point()])
    said = "thing 'theirs' of their_package:theirs cannot be imported: cannot import name 'Shard' from 'hpfl.data'"
    with pytest.raises(UnknownNameError, match=said):
        Registry("thing").get("theirs")
