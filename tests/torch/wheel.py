"""Builds the wheel, installs it apart, and trains with nothing else of Tandem. It is compiled without optimisation, which takes
a third of the time, unless the argument is "optimised".
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libpthread.so", "librt.so", "libdl.so")
SCRIPT = """
import torch
import torch.distributed as dist
import tandem

dist.init_process_group("tandem")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    inputs = torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
total = loss.detach()
dist.all_reduce(total)
if dist.get_rank() == 0:
    print("trained with", tandem.__file__, total.item())
dist.destroy_process_group()
"""


def run(command, **named):
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **named)
    if done.returncode != 0:
        print(done.stdout)
        raise SystemExit(f"{command[0]} has failed with status {done.returncode}")
    return done.stdout


def build(into):
    """pip fetches what builds it; where that is not possible this test is skipped."""
    fetched = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", into / "fetched", "scikit-build-core"],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if fetched.returncode != 0:
        print(f"skipped: pip cannot fetch scikit-build-core, which builds the wheel: {fetched.stdout}")
        raise SystemExit(77)
    launcher = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if shutil.which("ccache") else {}
    fast = [] if "optimised" in sys.argv else ["-C", "cmake.build-type=Debug", "-C", "cmake.define.CMAKE_CXX_FLAGS_DEBUG=-O0"]
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", ROOT / "apps/torch", "-w", into, *fast],
        env=os.environ | launcher | {"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count())})
    (wheel,) = into.glob("tandem-*.whl")
    return wheel


def check_needs_glibc_only(file):
    for line in run(["ldd", file]).splitlines():
        name = Path(line.split()[0]).name
        assert name.startswith(SYSTEM), f"{file.name} needs {name}"


def main():
    with tempfile.TemporaryDirectory(prefix="tandem-wheel-") as folder:
        folder = Path(folder)
        wheel = build(folder)
        site = folder / "site"
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel])
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        for file in (*site.rglob("libtandem_c.so*"), *site.glob("bin/tandem")):
            check_needs_glibc_only(file)
        assert "tandem" in run([site / "bin/tandem", "--version"])
        for name in ("tandem.h", "tandem_pipelines.h"):
            assert list(site.rglob(name)), f"the C interface's header {name} is missing"

        script = folder / "train.py"
        script.write_text(SCRIPT)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")}
        environment |= {"PYTHONPATH": str(site), "TANDEM_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        printed = run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script],
                      env=environment, cwd=folder)
        assert f"trained with {site}" in printed, printed


if __name__ == "__main__":
    main()
