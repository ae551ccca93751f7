#!/usr/bin/env python3
"""apps/pretrain on processors, with tiny models: the same losses for each link and schedule, every layout, checkpoints that go on
with the same bits, a rank that is killed, damaged files, output that is lost, and bad input.

usage: pretrain.py [NAME...]     (PRETRAIN_TEST_OPTIONS: more options of each run, for GPUs: "--deterministic 1")
"""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import forked

HERE = Path(__file__).resolve().parent
PRETRAIN = HERE.parents[1] / "apps" / "pretrain" / "pretrain"
ENDS_WITHIN_S = 2
TEXT = str(HERE.parents[1] / "README.md")
# A learning rate at which a wrong gradient shows after two steps.
TINY = f"--model llama-tiny --type float32 --sequence 48 --batch 4 --steps 3 --learning-rate 0.01 --warmup 1 --data {TEXT} "
TINY += os.environ.get("PRETRAIN_TEST_OPTIONS", "--devices cpu")
SCHEDULES = ("gpipe", "one_f_one_b", "interleaved", "zb_h1", "zb_v", "v_uneven", "interleaved --chunks 1")


def free_ports(count):
    """Different ones, since all are taken at once."""
    taken = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [str(one.getsockname()[1]) for one in taken]
    for one in taken:
        one.close()
    return ports


def environments(ranks, jobs=1):
    """Of the ranks, which make that many jobs, one after another, without a launcher."""
    ports = free_ports(jobs)
    of_all = os.environ | {"MASTER_ADDR": "localhost", "MASTER_PORT": ports[0], "TEST_PORTS": ",".join(ports),
                           "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    return [of_all | {"RANK": str(r), "LOCAL_RANK": str(r)} for r in range(ranks)]


def started(ranks, *command, jobs=1):
    return [forked.Program(*command, environment=one) for one in environments(ranks, jobs)]


def losses_of(ranks, lines, folder):
    """The losses of each of these command lines, all run by the same ranks."""
    processes = started(ranks, str(HERE / "pretrain_ranks.py"), *(f"{line} --cache {folder}/cache" for line in lines),
                        jobs=len(lines))
    texts = [process.communicate(timeout=240) for process in processes]
    assert not any(process.returncode for process in processes), texts
    found = [[] for _ in lines]
    for text in texts[0][0].splitlines():
        if text.startswith("losses "):
            _, number, *losses = text.split()
            found[int(number)].append([float.fromhex(loss) for loss in losses])
    return found


def same_losses():
    with tempfile.TemporaryDirectory(prefix="tandem-pretrain-") as folder:
        alone, qwen, clipped, narrow, master = losses_of(1, [
            TINY, TINY.replace("llama", "qwen2") + " --data random", TINY + " --clip 0.5",
            TINY.replace("float32", "bfloat16"), TINY.replace("float32", "bfloat16") + " --master float32"], folder)
        two = [f"{TINY} --schedule {kind}" for kind in SCHEDULES] + [
            TINY + " --link gloo --layers 1,3 --recompute 1",
            TINY.replace("llama", "qwen2") + " --data random", TINY + " --clip 0.5", TINY.replace("float32", "bfloat16"),
            TINY.replace("float32", "bfloat16") + " --master float32",
            TINY + " --compare gloo,gloo:ahead=0,tandem-direct,tandem-tcp:ahead=5 --rounds 1"]
        wanted = [alone[0]] * (len(SCHEDULES) + 1) + [qwen[0], clipped[0], narrow[0], master[0], alone[0]]
        layouts = ["pipeline=1,data=2", "tensor=2"]
        found = losses_of(2, two + [f"{TINY} --layout {text}" for text in layouts], folder)
        for line, runs, reference in zip(two, found, wanted, strict=False):
            assert runs and all(losses == reference for losses in runs), (line, runs, reference)
            print(f"same bits as one process: {line.removeprefix(TINY).strip() or line} ({len(runs)})", flush=True)
        both = ["pipeline=2,data=2", "pipeline=2,tensor=2"]
        found = found[len(two):] + losses_of(4, [f"{TINY} --layout {text}" for text in both], folder)
        for text, runs in zip(layouts + both, found, strict=True):
            most = max(abs(a - b) / a for a, b in zip(alone[0], runs[0], strict=True))
            assert most < 1e-3, (text, most)
            print(f"{text}: largest difference {most:g}", flush=True)


def steps_in(file):
    found = [json.loads(text) for text in Path(file).read_text(encoding="utf-8").splitlines()] if Path(file).exists() else []
    return [(one["step"], one["loss_bits"]) for one in found if one["event"] == "step"]


def in_time(attempt):
    """It takes less than 2 s: a busy machine may hold up any attempt. What it checks besides, it checks each time."""
    assert any(attempt() < ENDS_WITHIN_S for _ in range(5)), "too late each time"


def killed_and_resumed():
    """A rank is killed between two checkpoints; the other names it and ends; the job goes on from the last one."""
    in_time(time_to_end_and_resume)


def time_to_end_and_resume():
    with tempfile.TemporaryDirectory(prefix="tandem-pretrain-") as folder:
        file, save = f"{folder}/run.json", ["--save", f"{folder}/saved", "--save-every", "4", "--json", f"{folder}/run.json"]
        ranks = started(2, str(PRETRAIN), *TINY.split(), "--cache", f"{folder}/cache", "--steps", "2000", *save)
        until = time.monotonic() + 60
        while len(steps_in(file)) < 6:
            assert time.monotonic() < until and ranks[0].poll() is None, ranks[0].communicate()
            time.sleep(0.01)
        os.kill(ranks[1].pid, signal.SIGKILL)
        killed_at = time.monotonic()
        _, errors = ranks[0].communicate(timeout=30)
        seconds = time.monotonic() - killed_at
        ranks[1].communicate()
        print(f"rank 0 ended after {seconds:.2f} s: {errors.strip()}", flush=True)
        assert ranks[0].returncode == 1, ranks[0].returncode
        said = [text for text in errors.splitlines() if text.startswith("pretrain: ")]
        assert len(said) == 1 and said[0].startswith("pretrain: rank 0: ") and "rank 1" in said[0], errors
        assert "Traceback" not in errors, errors
        before = steps_in(file)
        last = before[-1][0]
        _, whole = losses_of(2, [f"{TINY} --steps {last + 2} --resume {' '.join(save)}", f"{TINY} --steps {last + 2}"], folder)
        after = steps_in(file)[len(before):]
        assert after[0][0] % 4 == 1 and after[-1][0] == last + 2, (before, after)
        for number, bits in before + after:
            assert float.fromhex(bits) == whole[0][number - 1], (number, bits)
        print(f"resumed after step {after[0][0] - 1}, {len(after)} steps with the same bits")
    return seconds


def by_hand():
    """It starts its own ranks, and writes a page."""
    with tempfile.TemporaryDirectory(prefix="tandem-pretrain-") as folder:
        done = subprocess.run([sys.executable, str(PRETRAIN), *TINY.split(), "--ranks", "2", "--cache", f"{folder}/cache",
                               "--report", f"{folder}/page.html"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and "step 3/3  loss " in done.stdout, done.stdout + done.stderr
        page = Path(f"{folder}/page.html").read_text(encoding="utf-8")
        assert all(f"<h2>{name}" in page for name in ("Loss", "TFLOP/s", "Timeline", "Links", "Configuration")), page[:2000]
        print(done.stdout.splitlines()[-1])


def refused(*arguments, **environment):
    in_time(lambda: time_to_refuse(*arguments, **environment))


def time_to_refuse(arguments, text, python=(), **environment):
    begun = time.monotonic()
    done = subprocess.run([sys.executable, *python, str(PRETRAIN), "--model", "llama-tiny", "--sequence", "48", *arguments.split()],
                          env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2 and len(lines) == 1 and lines[0].startswith("pretrain: ") and text in lines[0], (arguments, done)
    print(f"  {lines[0]}")
    return time.monotonic() - begun


def bad_input():
    for arguments, text in (
            ("--ranks 2 --layers 2,3", "they add up to 5, but the model has 4 layers"),
            ("--ranks 2 --layers 2,1,1", "3 numbers for 2 stages"),
            ("--ranks 2 --layout pipeline=3", "it is for 3 ranks, but there are 2"),
            ("--ranks 2 --layout pipelines=2", "write pipeline=2,data=1,tensor=1"),
            ("--ranks 3 --layout tensor=3", "cannot be divided by tensor=3"),
            ("--ranks 2 --devices cpu --link nccl", "choose tandem or gloo for processors"),
            ("--ranks 2 --link gloo:ahead=some", "ahead is a number of receives"),
            ("--link carrier-pigeon", "no such link; choose tandem"),
            ("--model llama-9b", "no such model; choose llama-8b"),
            ("--model /nosuch/config.json", "cannot be read"),
            ("--schedule fastest", "no such schedule; choose gpipe"),
            ("--ranks 2 --schedule gpipe --chunks 2", "2 chunks, but it has 1; interleaved takes any number"),
            ("--batch 3 --micro-batch 2", "not a multiple of 2"),
            ("--sequence 100000", "the model has positions for 512 tokens"),
            ("--report /nosuch/page.html", "cannot be written"), ("--json /nosuch/run.json", "cannot be written"),
            ("--save /proc/nosuch", "cannot be written"), ("--resume", "--save FOLDER"),
            ("--data /nosuch", "no such file or folder")):
        refused(arguments, text)


def without_the_library():
    """No link does without it: it makes the schedules."""
    for link in ("nccl", "gloo", "tandem"):
        refused(f"--link {link} --ranks 2", "/nowhere/libtandem_c.so does not exist: TANDEM_LIBRARY names it; Tandem's library makes "
                "the schedules for every link: set TANDEM_LIBRARY", TANDEM_LIBRARY="/nowhere/libtandem_c.so")
        refused(f"--link {link} --ranks 2", f"{__file__} cannot be loaded", TANDEM_LIBRARY=__file__)
        refused(f"--link {link} --ranks 2", "the package tandem, which makes the schedules for every link, is not installed: "
                "run tests/torch/install", python=["-I", "-S"])


def run_alone(folder, *more, stdout=None, starts_rank=False):
    """One rank over gloo, or a process that starts it."""
    return forked.run(PRETRAIN, *TINY.split(), "--link", "gloo", "--cache", f"{folder}/cache", "--steps", "2", *more, timeout=120,
                      stdout=stdout, environment=None if starts_rank else environments(1)[0])


def damaged_files():
    """A checkpoint that was cut or changed is refused by name; cached tokens are made again."""
    with tempfile.TemporaryDirectory(prefix="tandem-pretrain-") as folder:
        save = ("--save", f"{folder}/saved")
        done = run_alone(folder, *save)
        assert done.returncode == 0, done
        file = Path(f"{folder}/saved/step-00000002/rank-0.pt")
        whole, sums = file.read_bytes(), Path(f"{file}.sum")
        sum_text = sums.read_text(encoding="utf-8")
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        for content, sum_content, text in (
                (whole[:len(whole) // 2], sum_text, f"it is cut: {len(whole) // 2} of {len(whole)} bytes are left"),
                (bytes(flipped), sum_text, "it has been changed: its checksum differs"), (b"", sum_text, "it is cut: 0 of"),
                (whole, sum_text[:20], "rank-0.pt.sum is damaged"), (whole, "", "rank-0.pt.sum is damaged"),
                (whole, None, "rank-0.pt.sum is missing")):
            file.write_bytes(content)
            sums.unlink(missing_ok=True)
            if sum_content is not None:
                sums.write_text(sum_content, encoding="utf-8")
            done = run_alone(folder, *save, "--resume", "--steps", 3)
            lines = done.stderr.strip().splitlines()
            assert done.returncode != 0 and len(lines) == 1 and str(file) in lines[0] and text in lines[0], (text, done)
            print(f"  {lines[0]}", flush=True)
        made = subprocess.run([sys.executable, str(PRETRAIN.parent / "pretraining" / "checked.py"), str(file)], check=False)
        assert made.returncode == 0 and sums.read_text(encoding="utf-8") == sum_text
        tokens = next(Path(f"{folder}/cache").glob("tokens-*.int32"))
        right = tokens.read_bytes()
        tokens.write_bytes(right[:len(right) // 2])
        done = run_alone(folder, *save, "--resume", "--steps", 3)
        assert done.returncode == 0 and tokens.read_bytes() == right, done


def lost_output():
    """Of a full disk and a closed pipe: a word, and a status that is not 0. Devices and links are written through."""
    for shell, text in ((">/dev/full", "No space left on device"), (">&-", "it is closed"), ("| head -c0", "Broken pipe")):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{sys.executable} {PRETRAIN} --help {shell}"], text=True,
                              capture_output=True, timeout=60, check=False)
        said = f"pretrain: standard output: {text}; some of it was lost\n"
        assert shell.startswith("|") or (done.returncode == 1 and done.stderr == said), (shell, done)
        assert done.returncode == 1 or not done.stderr, (shell, done)  # head may have been slow to end
    with tempfile.TemporaryDirectory(prefix="tandem-pretrain-") as folder:
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = run_alone(folder, "--report", f"{folder}/page.html", stdout=full, starts_rank=True)
        assert done.returncode == 1 and "standard output: No space left on device" in done.stderr, done
        assert "</html>" in Path(f"{folder}/page.html").read_text(encoding="utf-8"), "the training ended before its report"
        reading, writing = os.pipe()
        os.close(reading)
        done = run_alone(folder, stdout=writing, starts_rank=True)
        os.close(writing)
        assert done.returncode == 1 and "standard output: Broken pipe" in done.stderr, done
        for option in ("--report", "--json"):
            done = run_alone(folder, option, "/dev/full")
            assert done.returncode == 1 and f"{option} /dev/full: cannot be written: No space left" in done.stderr, done
            assert Path("/dev/full").is_char_device()
            real, link = Path(folder, "real"), Path(folder, "link")
            real.write_text("old", encoding="utf-8")
            link.symlink_to("real")
            done = run_alone(folder, option, link)
            assert done.returncode == 0 and link.is_symlink() and "old" not in real.read_text(encoding="utf-8"), done
            link.unlink()


TESTS = [bad_input, without_the_library, by_hand, damaged_files, lost_output, same_losses, killed_and_resumed]


def main():
    if importlib.util.find_spec("transformers") is None:
        print("skipped: no transformers: tests/torch/install build/torch")
        return 77
    for test in TESTS:
        if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
            continue
        print(f"{test.__name__}:", flush=True)
        begun = time.monotonic()
        test()
        print(f"{test.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
