#!/usr/bin/env python3
"""What users of other back-ends have reported, as calls that must work here. Every rank runs every function below; the
name of each says what went wrong elsewhere, its docstring where.

usage: reported_faults.py [NAME...]
"""

import datetime
import multiprocessing
import os
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

RANKS = 3
SPLITS_NEED_A_DEVICE = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 15)


def all_gather_of_uneven_tensors(rank):
    """pytorch#156627"""
    into = [torch.zeros(r + 1) for r in range(RANKS)]
    dist.all_gather(into, torch.full((rank + 1,), float(rank)))
    for r, part in enumerate(into):
        assert part.tolist() == [float(r)] * (r + 1), part


def all_to_all_where_some_ranks_send_nothing(rank):
    """pytorch#146468"""
    sent = [2, 2, 2] if rank == 0 else [0, 0, 0]
    received = [2, 0, 0]
    into = torch.zeros(2)
    dist.all_to_all_single(into, torch.arange(float(sum(sent))), received, sent)
    assert into.tolist() == [2.0 * rank, 2.0 * rank + 1], into


def gather_of_a_strided_view(rank):
    """pytorch#158902"""
    view = torch.arange(12.0).view(3, 4).t()[::2]
    assert not view.is_contiguous()
    into = [torch.zeros(4, 3)[::2] for _ in range(RANKS)] if rank == 0 else None
    dist.gather(view + 100 * rank, into)
    for r, part in enumerate(into or []):
        assert torch.equal(part, view + 100 * r), part
    out = torch.zeros(4, 6)[:, ::2]
    dist.all_reduce(out.add_(torch.arange(12.0).view(4, 3)))
    assert torch.equal(out, RANKS * torch.arange(12.0).view(4, 3))


def a_pending_receive_blocks_nothing(rank):
    """pytorch#172668"""
    into = torch.zeros(1)
    pending = dist.irecv(into, (rank - 1) % RANKS, tag=9)
    for _ in range(10):
        dist.all_reduce(torch.ones(5))
    assert not pending.is_completed()
    dist.barrier()
    dist.send(torch.full((1,), float(rank)), (rank + 1) % RANKS, tag=9)
    pending.wait()
    assert into.item() == (rank - 1) % RANKS


def receives_listed_before_sends_on_all_ranks(rank):
    """torchcomms#2885, #2992"""
    into = torch.zeros(1_000_000)
    batch = [dist.P2POp(dist.irecv, into, (rank - 1) % RANKS),
             dist.P2POp(dist.isend, torch.full((1_000_000,), float(rank)), (rank + 1) % RANKS)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert into[-1].item() == (rank - 1) % RANKS


def messages_in_a_group_where_only_two_take_part(rank):
    """FlagCX#542"""
    group = dist.new_group(list(range(RANKS)))
    if rank == 0:
        dist.send(torch.ones(3), 2, group=group)
    elif rank == 2:
        into = torch.zeros(3)
        dist.recv(into, 0, group=group)
        assert into.sum() == 3
    dist.destroy_process_group(group)


def fifty_groups_at_once(rank):
    """nccl#2379, pytorch#129868: descriptors are given back, too"""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        groups = [dist.new_group(list(range(RANKS))) for _ in range(50)]
        for group in groups:
            data = torch.ones(1)
            dist.all_reduce(data, group=group)
            assert data.item() == RANKS
        for group in groups:
            dist.destroy_process_group(group)
        del groups, group
    dist.barrier()
    assert len(os.listdir("/proc/self/fd")) < before + 30, os.listdir("/proc/self/fd")


def tensors_without_elements(rank):
    """pytorch#85234"""
    nothing = torch.zeros(0)
    dist.all_reduce(nothing)
    dist.broadcast(nothing, 0)
    dist.all_gather([torch.zeros(0) for _ in range(RANKS)], nothing)
    dist.reduce_scatter_tensor(torch.zeros(0), nothing)
    dist.all_to_all_single(torch.zeros(0), nothing)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, nothing, (rank + 1) % RANKS),
                                        dist.P2POp(dist.irecv, torch.zeros(0), (rank - 1) % RANKS)]):
        work.wait()


def two_gigabytes_and_more(rank):
    """mlx#4280"""
    for extra in (0, 8):
        count = (1 << 31) + extra
        if rank == 0:
            data = torch.zeros(count, dtype=torch.uint8)
            data[-1], data[1 << 30] = 7, 8
            dist.send(data, 1)
        elif rank == 1:
            data = torch.zeros(count, dtype=torch.uint8)
            dist.recv(data, 0)
            assert data[-1] == 7 and data[1 << 30] == 8 and data.count_nonzero() == 2
        if rank < 2:
            del data
    dist.barrier()


def a_transfer_after_idling(rank):
    """Mooncake#4209"""
    dist.barrier()
    time.sleep(3)
    data = torch.ones(1_000_000)
    dist.all_reduce(data)
    assert data[0] == RANKS


def a_changed_timeout_is_used(rank):
    """pytorch#165422"""
    group = dist.new_group([0, 1], timeout=datetime.timedelta(minutes=5))
    if rank == 0:
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=0.3), group)
        begun = time.monotonic()
        try:
            dist.recv(torch.zeros(1), 1, group=group)
        except dist.DistBackendError as late:
            assert "peer rank 1" in str(late), late
        else:
            raise AssertionError("nothing was sent")
        try:
            dist.irecv(torch.zeros(1), 1, group=group, tag=1).get_future().wait()
        except RuntimeError as late:
            assert "peer rank 1" in str(late), late
        else:
            raise AssertionError("nothing was sent")
        assert time.monotonic() - begun < 5
    dist.barrier()
    if rank < 2:
        dist.destroy_process_group(group)


def sums_of_bool_complex_and_scaled(rank):
    flags = torch.tensor([rank == 1, False])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, False]
    number = torch.tensor([1 + 2j])
    dist.all_reduce(number)
    assert number.item() == RANKS * (1 + 2j)
    scaled = torch.tensor([4.0])
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(0.5))
    assert scaled.item() == RANKS * 2
    average = torch.tensor([float(rank)])
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    assert average.item() == 1
    try:
        dist.all_reduce(torch.tensor([1j]), op=dist.ReduceOp.PRODUCT)
    except (TypeError, ValueError, RuntimeError):
        pass
    else:
        raise AssertionError("a product of complex numbers")


def futures_of_sparse_sums_and_of_batches(rank):
    """DDP asks for the future of every call."""
    sparse = torch.sparse_coo_tensor([[rank]], [2.0], (RANKS,))
    future = dist.all_reduce(sparse, async_op=True).get_future()
    future.wait()
    assert sparse.to_dense().tolist() == [2.0] * RANKS
    data = [torch.ones(3), torch.ones(5)]
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as batch:
        for part in data:
            dist.broadcast(part.mul_(rank + 1), 1)
    for work in batch.works:
        work.get_future().wait()
    assert all(part.tolist() == [2.0] * len(part) for part in data), data


def handles_that_know_their_source_and_their_end(rank):
    """The handles that PyTorch 2.15 makes for a back-end in Python pass on `wait` and `get_future` only."""
    if rank == 0:
        sources = set()
        for _ in range(RANKS - 1):
            into = torch.zeros(1)
            sources.add(dist.recv(into))
            assert into.item() in sources
        assert sources == set(range(1, RANKS)), sources
    else:
        dist.send(torch.full((1,), float(rank)), 0)
    data = torch.ones(3)
    pending = dist.all_reduce(data, async_op=True)
    limit = time.monotonic() + 30
    while not pending.is_completed():
        assert time.monotonic() < limit, "never complete"
    assert pending.is_success()
    assert data.tolist() == [RANKS] * 3, data


def a_split_that_leaves_a_rank_out(rank):
    """PyTorch 2.15 crashes where a back-end in Python has no part for a rank."""
    if SPLITS_NEED_A_DEVICE:
        print(f"a_split_that_leaves_a_rank_out: skipped: PyTorch {torch.__version__} splits groups that are bound to a "
              "device only", flush=True)
        return
    part = dist.split_group(split_ranks=[[0, 1]])
    if rank < 2:
        data = torch.ones(2)
        dist.all_reduce(data, group=part)
        assert data.tolist() == [2, 2], data


def handles_that_are_dropped(rank):
    """Their tensors stay until the operation is complete."""
    into = torch.zeros(100_000)
    for step in range(20):
        dist.all_reduce(torch.full((100_000,), float(step)), async_op=True)
        dist.irecv(into.view(2, -1).t(), (rank - 1) % RANKS, tag=5)
        dist.isend(torch.full((100_000,), float(rank)), (rank + 1) % RANKS, tag=5)
    dist.barrier()


def mistakes_are_errors_and_change_nothing(rank):
    for call in (lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(2)),
                 lambda: dist.all_gather([torch.zeros(2, dtype=torch.int) for _ in range(RANKS)], torch.zeros(2)),
                 lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4)),
                 lambda: dist.reduce_scatter_tensor(torch.zeros(3), torch.zeros(3)),
                 lambda: dist.send(torch.zeros(1), (rank + 1) % RANKS, tag=70_000)):
        try:
            call()
        except (ValueError, TypeError, RuntimeError) as refused:
            assert "\n" not in str(refused).split("\nException raised")[0], refused
        else:
            raise AssertionError("not refused")
    data = torch.ones(1)
    dist.all_reduce(data)
    assert data.item() == RANKS


def a_data_loader_that_forks(rank):
    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            return torch.full((4,), float(index))

    total = torch.zeros(1)
    for batch in torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2):
        dist.all_reduce(batch)
        total += batch.sum()
    assert total.item() == RANKS * 4 * 63 * 32, total


TESTS = {name: value for name, value in list(globals().items())
         if callable(value) and getattr(value, "__module__", None) == __name__ and not name.startswith("_")}


def rank_body(rank, folder, names, failed):
    torch.set_num_threads(1)
    # A busy machine takes a minute for the gigabytes of one of them, while others wait in a barrier.
    dist.init_process_group("tandem", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=180))
    for name in names:
        begun = time.monotonic()
        try:
            TESTS[name](rank)
            dist.barrier()
        except Exception:  # noqa: BLE001
            traceback.print_exc()
            print(f"{name}: failed on rank {rank}", flush=True)
            failed.value += 1
            os._exit(1)
        if rank == 0:
            print(f"{name}: {time.monotonic() - begun:.2f} s", flush=True)
    dist.destroy_process_group()


def exits_before_the_first_call(rank, folder, seen):
    """gloo#520: the others learn of it, and do not hang."""
    dist.init_process_group("tandem", init_method=f"file://{folder}/exits", rank=rank, world_size=RANKS)
    if rank == 1:
        os._exit(0)
    try:
        while True:
            dist.barrier()
    except dist.DistBackendError as lost:
        assert "rank 1" in str(lost), lost
        seen.release()


def main():
    names = sys.argv[1:] or list(TESTS)
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="tandem-faults-") as folder:
        failed, seen = context.Value("i", 0), context.Semaphore(0)
        for body, more in ((rank_body, (names, failed)), (exits_before_the_first_call, (seen,))):
            ranks = [context.Process(target=body, args=(r, folder, *more)) for r in range(RANKS)]
            for process in ranks:
                process.start()
            for process in ranks:
                process.join(400)
                if process.is_alive():
                    process.kill()
                    failed.value += 1
        if not (seen.acquire(timeout=1) and seen.acquire(timeout=1)):
            print("exits_before_the_first_call: the other ranks did not notice")
            failed.value += 1
    print("failed" if failed.value else f"{len(names) + 1} reported faults, none here")
    return 1 if failed.value else 0


if __name__ == "__main__":
    TESTS = {name: value for name, value in TESTS.items()
             if name not in ("rank_body", "exits_before_the_first_call", "main")}
    sys.exit(main())
