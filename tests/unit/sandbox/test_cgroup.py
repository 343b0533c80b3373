"""Where control groups could be made, read from tables; and what is written into one, on a plain folder."""

from pathlib import Path

from gym_core.sandbox.contract import SandboxResources
from gym_core.sandbox.providers.local.cgroup import CgroupTree, candidate_trees, remove_groups


def controllers(folder: Path, names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.controllers").write_text(names)
    return folder


def test_version_2_tries_the_own_group_its_parent_and_the_root(tmp_path: Path) -> None:
    root = controllers(tmp_path / "cg", "cpu memory pids")
    parent = controllers(root / "user.slice", "memory pids")
    own = controllers(parent / "app.scope", "memory pids")
    trees = candidate_trees(f"cgroup2 {root} cgroup2 rw 0 0\n", "0::/user.slice/app.scope\n")
    assert [tree.parents["unified"] for tree in trees] == [own, parent, root]


def test_a_version_2_tree_without_controllers_gives_way_to_version_1(tmp_path: Path) -> None:
    unified = controllers(tmp_path / "unified", "")
    for name in ("memory", "pids", "cpu"):
        (tmp_path / name / "own").mkdir(parents=True)
    mounts = f"cgroup2 {unified} cgroup2 rw 0 0\n" + "".join(
        f"cgroup {tmp_path / options.split(',')[0]} cgroup rw,{options} 0 0\n"
        for options in ("cpu,cpuacct", "memory", "pids", "freezer")
    )
    (tree,) = candidate_trees(mounts, "4:memory:/own\n3:pids:/elsewhere\n2:cpu,cpuacct:/own\n0::/\n")
    assert tree.version == "cgroup_v1"
    assert tree.parents == {
        "cpu": tmp_path / "cpu/own",
        "memory": tmp_path / "memory/own",
        "pids": tmp_path / "pids",  # our own path is not seen from here
    }


def test_without_memory_or_pids_there_is_no_tree(tmp_path: Path) -> None:
    assert candidate_trees(f"cgroup {tmp_path} cgroup rw,cpu 0 0\n", "1:cpu:/\n") == []


def test_the_limits_of_version_2_are_written(tmp_path: Path) -> None:
    group = CgroupTree("cgroup_v2", {"unified": tmp_path}).group("box")
    group.make(SandboxResources(cpu=1.5, memory_mib=300, pids=77))
    written = {path.name: path.read_text() for path in group.folders[0].iterdir()}
    assert written == {
        "memory.max": str(300 << 20),
        "memory.swap.max": "0",
        "pids.max": "77",
        "cpu.max": "150000 100000",
    }
    assert group.join_files == [str(tmp_path / "gym/box/cgroup.procs")]


def test_the_limits_of_version_1_are_written(tmp_path: Path) -> None:
    parents = {name: tmp_path / name for name in ("cpu", "memory", "pids")}
    CgroupTree("cgroup_v1", parents).group("box").make(SandboxResources(cpu=0.5, memory_mib=300, pids=77))
    assert (tmp_path / "memory/gym/box/memory.limit_in_bytes").read_text() == str(300 << 20)
    assert (tmp_path / "pids/gym/box/pids.max").read_text() == "77"
    assert (tmp_path / "cpu/gym/box/cpu.cfs_quota_us").read_text() == "50000"


async def test_removing_groups_that_are_gone_is_fine(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    await remove_groups([tmp_path / "one", tmp_path / "gone"])
    assert not (tmp_path / "one").exists()
