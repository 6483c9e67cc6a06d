"""The inventory and the names of hosts: what they mean, near matches, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from provisioner.commands import Address
from provisioner.errors import InventoryError, UsageError
from provisioner.hosts.inventory import HostEntry, Inventory, Target, expand, load_inventory, read_inventory
from provisioner.ranges import expand_range
from provisioner.resources import resource

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
format: 1
hosts:
  login: {address: 10.0.0.1, user: admin, port: 2222}
  gpu[01-04]: {user: root, key: ~/.ssh/gpu, jump: login}
  big: {address: "fd00::7", jump: "ops@bastion:22"}
  plain:
groups:
  train: ["gpu[01-02]", big]
  all-gpus: [train, "gpu[03-04]"]
"""


def names(*asked: str) -> list[str]:
    return [target.name for target in expand(asked, read_inventory(TEXT, "hosts.yaml"))]


def test_names_groups_and_ranges_each_host_once_in_order() -> None:
    assert names("gpu03", "train") == ["gpu03", "gpu01", "gpu02", "big"]
    assert names("all-gpus", "gpu[01-04]", "local", "local") == ["gpu01", "gpu02", "big", "gpu03", "gpu04", "local"]


def test_how_a_host_is_reached() -> None:
    (host,) = expand(["gpu02"], read_inventory(TEXT, "hosts.yaml"))
    assert host == Target(name="gpu02", kind="ssh", address="gpu02", user="root", key="~/.ssh/gpu", jump="admin@10.0.0.1:2222")
    assert host.ssh == Address(host="gpu02", user="root", key="~/.ssh/gpu", jump="admin@10.0.0.1:2222")
    (big,) = expand(["big"], read_inventory(TEXT, "hosts.yaml"))
    assert (big.address, big.jump) == ("fd00::7", "ops@bastion:22")
    (plain,) = expand(["plain"], read_inventory(TEXT, "hosts.yaml"))
    assert plain.ssh == Address(host="plain")


@pytest.mark.parametrize(
    ("name", "address", "user", "port"),
    [
        ("root@127.0.0.2:2222", "127.0.0.2", "root", 2222),
        ("root@gpu01", "gpu01", "root", None),
        ("me@[fd00::7]:22", "fd00::7", "me", 22),
        ("me@fd00::7", "fd00::7", "me", None),
        ("me@[fe80::1%eth0]", "fe80::1%eth0", "me", None),
    ],
)
def test_addresses_need_no_inventory(name: str, address: str, user: str, port: int | None) -> None:
    (target,) = expand([name], None)
    assert (target.kind, target.name, target.address, target.user, target.port) == ("ssh", name, address, user, port)


def test_this_machine_and_recordings() -> None:
    assert expand(["local"], None) == (Target(name="local", kind="local"),)
    assert expand(["replay:some dir/rec"], None) == (Target(name="replay:some dir/rec", kind="replay", folder="some dir/rec"),)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-oProxyCommand=id",
        "-l@host",
        "--help",
        "gpu01;reboot",
        "gpu 01",
        "$(id)",
        "`id`",
        "gpu01\n",
        "gpu\x1b[31m",
        "root@-oProxyCommand=id",
        "$(id)@host",
        "a;b@host",
        "-x@host",
        "root@ho st",
        "root@host;id",
        "root@host:0",
        "root@host:99999",
        "root@",
        "@host",
        "root@h\u00f6st",
        "replay:",
        "gpu[04-01]",
        "gpu[1-",
        "gpu[a-b]",
        "gpu[]",
        "gpu[0-999999999]",
        "g[1-9999][1-9999]",
        "../x",
        "gpu*",
    ],
)
def test_hostile_and_wrong_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        expand([name], Inventory(hosts={"gpu01": None}))


def test_unknown_names_are_told_with_near_ones() -> None:
    with pytest.raises(UsageError, match="no host or group gpu05; did you mean gpu0") as caught:
        names("gpu05")
    assert caught.value.hint is not None
    assert "user@gpu05" in caught.value.hint
    with pytest.raises(UsageError, match="no host or group gpu01") as caught:
        expand(["gpu01"], None)
    assert "--inventory" in str(caught.value.hint)
    with pytest.raises(UsageError) as caught:
        names("gpu01,gpu02")
    assert caught.value.hint == "separate several hosts by spaces, or write gpu[01-02]"


def test_all_is_every_host_of_the_inventory() -> None:
    assert names("all") == ["login", "gpu01", "gpu02", "gpu03", "gpu04", "big", "plain"]
    with pytest.raises(UsageError, match="all means every host of the inventory, and there is none"):
        expand(["all"], None)


def test_a_name_of_the_ssh_configuration_is_a_host_and_the_inventory_goes_before_it() -> None:
    found = expand(["gpu01", "box7"], read_inventory(TEXT, "h.yaml"), known=lambda name: name in {"gpu01", "box7"})
    assert found[0].user == "root"
    assert found[1] == Target(name="box7", kind="ssh", address="box7")


def test_an_error_shows_an_entry_and_the_example_every_key() -> None:
    with pytest.raises(InventoryError) as caught:
        read_inventory("format: 1\nhosts: {a: {prot: 22}}\n", "h.yaml")
    hint = str(caught.value.hint)
    assert hint.startswith("such as: gpu01: {address: 10.0.0.7, user: root, port: 22")
    shown = read_inventory(f"format: 1\nhosts: {{{hint.removeprefix('such as: ')}}}\n", "h.yaml").hosts["gpu01"]
    assert shown is not None
    path = resource("examples", "hosts.yaml")
    text = path.read_text(encoding="utf-8")
    for entry in dataclasses.fields(HostEntry):
        assert f"{entry.name}:" in text
        assert getattr(shown, entry.name) is not None
    example = load_inventory(path)
    assert [target.name for target in expand(["cluster"], example)] == ["gpu01", "gpu02", "gpu03", "gpu04", "login01"]
    assert expand(["gpu02"], example)[0].jump == "admin@bastion.example:2222"


def problems(text: str) -> list[str]:
    with pytest.raises(InventoryError) as caught:
        read_inventory(text, "h.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_every_mistake_is_told_at_once_with_its_place() -> None:
    told = problems('format: 1\nhosts:\n  a: {prot: 22}\n  "b[2-1]":\ngroups:\n  g: [a, c]\n')
    assert told == [
        "h.yaml:3:7: unknown key prot; did you mean port?",
        "h.yaml:4:12: 'b[2-1]': 2-1 counts down",
        "h.yaml:6:10: there is no host or group c",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format: 2\n", "made by a newer provisioner"),
        ("format: 1\nhosts: {a: {}, a: {}}\n", "twice"),
        ("format: 1\nhosts: {'a[1-2]': {}, a2: {}}\n", "the host a2 stands here twice"),
        ("format: 1\nhosts: {a: {}}\ngroups: {a: [a]}\n", "a is a host already"),
        ("format: 1\nhosts: {a: {}}\ngroups: {'g[1-2]': [a]}\n", "a group has one name"),
        ("format: 1\ngroups: {g: [h], h: [g]}\n", "the group g contains itself"),
        ("format: 1\ngroups: {g: [g]}\n", "the group g contains itself"),
        ("format: 1\nhosts: {local: {}}\n", "local means something else"),
        ("format: 1\nhosts: {'a[1-2]': {address: b}}\n", "a[1-2] are 2 hosts, and they cannot all have the address b"),
        ("format: 1\nhosts: {a: {port: 0}}\n", "is not a port"),
        ("format: 1\nhosts: {a: {port: 65536}}\n", "is not a port"),
        ("format: 1\nhosts: {a: {user: '-x'}}\n", "is not the name of a user"),
        ("format: 1\nhosts: {a: {user: 'a;b'}}\n", "is not the name of a user"),
        ("format: 1\nhosts: {a: {address: '-oX=y'}}\n", "is not the name or the address of a host"),
        ("format: 1\nhosts: {a: {address: 'a b'}}\n", "is not the name or the address of a host"),
        ("format: 1\nhosts: {a: {key: '-x'}}\n", "is not the path of a file"),
        ('format: 1\nhosts: {a: {key: "a\\nb"}}\n', "is not the path of a file"),
        ("format: 1\nhosts: {a: {jump: 'x y'}}\n", "is not an address"),
        ("format: 1\nhosts: {a: {jump: '$(id)@b'}}\n", "is not an address"),
        ("format: 1\nhosts: {'a;b': {}}\n", "is not the name of a host"),
        ("format: 1\nhosts: [a]\n", "hosts must be a mapping"),
        ("", "empty"),
        ("a: &x 1\nb: *x\n", "unknown key"),
    ],
)
def test_a_wrong_inventory_is_refused(text: str, said: str) -> None:
    told = problems(text)
    assert any(said in line for line in told), told


def test_ranges() -> None:
    assert expand_range("gpu[08-11]") == ("gpu08", "gpu09", "gpu10", "gpu11")
    assert expand_range("gpu[9-10]") == ("gpu9", "gpu10")
    assert expand_range("r[1-2]n[01,03-04].lab") == ("r1n01.lab", "r1n03.lab", "r1n04.lab", "r2n01.lab", "r2n03.lab", "r2n04.lab")
    assert expand_range("gpu01") == ("gpu01",)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="no such file"):
        load_inventory(tmp_path / "hosts.yaml")
    (tmp_path / "hosts.yaml").write_text(TEXT, encoding="utf-8")
    assert set(load_inventory(tmp_path / "hosts.yaml").hosts) == {"login", "gpu01", "gpu02", "gpu03", "gpu04", "big", "plain"}
